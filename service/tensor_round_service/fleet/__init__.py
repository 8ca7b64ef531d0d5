"""Replicas of the service on a Ray cluster: placed, watched, scaled and replaced by Ray.

Ray is in no path of data: clients connect to the replicas' own sockets.
"""
