"""Quantization into blocks that share a scale: the formats of OCP MX v1.0, and NVFP4."""
