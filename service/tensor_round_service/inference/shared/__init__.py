"""Memory of other processes that clients have registered: POSIX shared memory and CUDA IPC."""
