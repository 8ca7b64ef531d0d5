"""Rounding on NVIDIA GPUs: kernels as text, devices, host tensors in pieces, device tensors."""
