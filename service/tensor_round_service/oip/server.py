"""What the server says of itself and of its models."""

from __future__ import annotations

from importlib.metadata import version

from .. import documents
from .models import MODELS

#: The protocol's extensions that every service has.
EXTENSIONS = (
    "binary_tensor_data",
    "parameters",
    "statistics",
    "model_configuration",
    "model_repository",
)

#: Triton's log settings. They are constant: the service's own settings control logging.
LOGGING: documents.LogSettings = {
    "log_file": "",
    "log_info": True,
    "log_warning": True,
    "log_error": True,
    "log_verbose_level": 0,
    "log_format": "default",
}
TRACE: documents.TraceSettings = {
    "trace_level": ["OFF"],
    "trace_rate": "1000",
    "trace_count": "-1",
    "log_frequency": "0",
    "trace_file": "",
    "trace_mode": "triton",
}
FIXED_MODEL = "model {name} is fixed and cannot be unloaded"
FIXED_LOGGING = "log settings are fixed when the service starts"
NO_TRACING = "the service has no tracing"


def server_metadata(*, has_system_memory: bool, has_cuda_memory: bool) -> documents.ServerMetadata:
    """Name, version and the protocol extensions of a service with these kinds of shared memory."""
    extensions = list(EXTENSIONS)
    if has_system_memory:
        extensions.append("system_shared_memory")
    if has_cuda_memory:
        extensions.append("cuda_shared_memory")
    return {
        "name": documents.NAME,
        "version": version(documents.NAME),
        "extensions": extensions,
    }


def repository_index() -> list[documents.IndexEntry]:
    """Every version of every model; all are ready."""
    return [{"name": m.name, "version": m.version, "state": "READY"} for m in MODELS]
