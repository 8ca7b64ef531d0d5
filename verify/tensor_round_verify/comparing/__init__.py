"""Comparison of arrays: the rule that turns one into another; operators compared on one array."""
