"""Requests as values, and readers of their responses. Pure functions: no I/O here."""
