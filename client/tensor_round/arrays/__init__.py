"""Callers' arrays: in host memory and on a GPU; tiles of them; sinks of results."""
