"""Rounding on CPUs: by NumPy, and by kernels compiled with LLVM if llvmlite is installed."""
