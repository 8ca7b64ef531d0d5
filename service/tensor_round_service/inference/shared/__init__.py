"""Shared memory that clients register: POSIX shared memory and CUDA IPC."""
