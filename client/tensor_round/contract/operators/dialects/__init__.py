"""The dialects, one file each: descriptors, rules, the operator as an object, and its tables."""
