"""What clients do beyond rounding arrays: descriptors executed as they are."""
