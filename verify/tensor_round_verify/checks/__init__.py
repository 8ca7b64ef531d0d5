"""Checks of a runtime: every pattern, arrays of every form, the same array again."""
