"""Verification of a runtime: patterns judged in blocks, summed up, told, held to a baseline."""
