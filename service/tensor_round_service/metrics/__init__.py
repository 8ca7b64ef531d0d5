"""Metrics of a service: counted by each worker, summed over all, in Prometheus' format."""
