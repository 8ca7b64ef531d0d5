"""Rounding on NVIDIA GPUs: kernels, devices, and pipelines for tensors in host memory."""
