"""Formats that the service alone reads or writes: JSON tensors, the Open Inference Protocol."""
