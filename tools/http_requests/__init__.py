"""Requests of every kind, each with the response that it must get: for load tests and fuzzers."""
