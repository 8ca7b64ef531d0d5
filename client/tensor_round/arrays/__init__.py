"""Callers' arrays: in host memory, on a GPU and in .npy files; tiles of them; sinks of results."""
