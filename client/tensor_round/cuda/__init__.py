"""Rounding arrays in GPU memory: the CUDA driver, CUDA IPC, and copies through the host."""
