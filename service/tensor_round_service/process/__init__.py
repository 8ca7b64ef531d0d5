"""Processes of the service: the command line, the listener, workers, TLS, the drain."""
