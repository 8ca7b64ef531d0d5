"""Tensors in JSON."""
