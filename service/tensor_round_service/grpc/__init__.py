"""gRPC on the port of HTTP/1.1: the Open Inference Protocol's service, health and reflection."""

from __future__ import annotations

from ..features import Feature, FeatureContext
from ..gate import Gate
from ..oip.calls import ControlCalls
from ..oip.inference import Inference
from . import control, health
from .infer import InferMethods
from .reflection import reflection_methods
from .service import Service


def feature(context: FeatureContext) -> Feature:
    """gRPC, unless the setting GRPC turns it off."""
    if not context.settings.grpc:
        return Feature()
    infer = InferMethods(context.provision(Inference))
    methods = {
        f"/{control.SERVICE}/ModelInfer": infer.infer,
        f"/{control.SERVICE}/ModelStreamInfer": infer.infer_stream,
        **control.control_methods(context.provision(ControlCalls)),
        **health.health_methods(
            context.readiness.check, lambda: context.lifecycle.draining, context.engine.memory
        ),
        **reflection_methods(context.engine.memory),
    }

    def streams(gate: Gate) -> Service:
        return Service(methods, context.engine.memory, gate)

    probes = control.OPEN_METHODS | health.OPEN_METHODS
    return Feature(
        counted_paths=methods.keys(),
        open_paths=probes,
        probes=probes,
        streams=streams,
    )
