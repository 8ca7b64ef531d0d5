"""Verification of a runtime: its results judged in blocks, reports, and baselines of faults."""
