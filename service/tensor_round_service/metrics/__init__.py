"""Metrics of a service: counted by each worker, summed over all, told in Prometheus' format."""
