"""Processes of the service: command line, listener, server, workers, TLS."""
