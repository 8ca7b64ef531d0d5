"""Arrays in a GPU's memory: the CUDA driver, CUDA IPC, and rounding them where they are."""
