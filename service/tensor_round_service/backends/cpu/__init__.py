"""Rounding on CPUs: NumPy, and loops compiled by LLVM where llvmlite is installed."""
