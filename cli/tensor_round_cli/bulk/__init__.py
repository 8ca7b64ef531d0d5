"""Rounding of whole arrays in files and stores, tile by tile, which can be resumed."""
