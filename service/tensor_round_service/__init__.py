"""The server of tensor-round: exact tensor rounding over HTTP.

``engine`` and ``backends`` import without a web framework, for use as a library.
"""
