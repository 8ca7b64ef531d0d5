"""Models whose rounding nodes are verified on the tensors that reach them."""
