"""Arrays of callers: host arrays, GPU arrays, .npy files, tiles, and sinks for results."""
