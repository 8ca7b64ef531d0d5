"""Requests as values, and what responses mean. Pure functions: no I/O here."""
