"""Verification of a runtime: results compared in blocks, summed, reported, and checked."""
