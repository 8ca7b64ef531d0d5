"""tensor-round on a Ray cluster: replicas of Ray Serve, each with an engine of its own.

Start it with ``serve run serve:app`` in this folder. The settings are the service's own, from the
environment of the cluster's nodes; Ray Serve has the port, TLS, the number of replicas and their
restarts.
"""

from __future__ import annotations

import os

from fastapi import FastAPI
from ray import serve

from tensor_round_service.app import create_app
from tensor_round_service.settings import Settings


def application() -> FastAPI:
    """The service, made in the replica: engines and kernels are not sent from node to node."""
    return create_app(Settings())


@serve.deployment(
    # One replica for each core or GPU that the service may use.
    num_replicas=int(os.environ.get("TENSOR_ROUND_REPLICAS", "2")),
    ray_actor_options={
        "num_cpus": 1,
        "num_gpus": float(os.environ.get("TENSOR_ROUND_REPLICA_GPUS", "0")),
    },
    # The budget of each replica refuses what does not fit; Ray need not.
    max_ongoing_requests=1000,
    health_check_period_s=2,
    health_check_timeout_s=5,
    # As long as the service itself gives the requests that it has begun.
    graceful_shutdown_timeout_s=Settings().drain_timeout,
)
@serve.ingress(application)
class TensorRound:
    """The ingress of Ray Serve."""


app = TensorRound.bind()
