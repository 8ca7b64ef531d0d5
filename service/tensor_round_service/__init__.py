"""The server of tensor-round: exact tensor rounding over HTTP.

The packages ``engine`` and ``backends`` can be used as a library: they need no web framework.
"""
