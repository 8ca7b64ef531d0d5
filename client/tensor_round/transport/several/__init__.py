"""Requests to several addresses: each goes to the one with the least outstanding bytes.

``transport``   the transport of several addresses, which may come from a directory
``balancer``    the choice among them, as state without I/O
``directory``   the document of a fleet that lists its replicas
``bounded``     connecting and probing in bounded time
"""
