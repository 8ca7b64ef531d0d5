"""Comparison of arrays: what turns one into another, and where operators differ on one."""
