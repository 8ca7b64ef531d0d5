"""Verifying conversions: ``cast`` between floats, ``quantize_linear`` of floats to integers."""
