"""Differences of rounding directions on one tensor: the document, and how they are counted."""
