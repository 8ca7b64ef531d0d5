"""Types of the JSON documents of the Open Inference Protocol; they have Triton's members."""

from __future__ import annotations

from typing import NotRequired

from typing_extensions import TypedDict  # typing's own is enough for pydantic from Python 3.12 on


class ServerMetadata(TypedDict):
    """Name and version of the server, and the protocol extensions that are enabled."""

    name: str
    version: str
    extensions: list[str]


class ServerLive(TypedDict):
    """The event loop runs."""

    live: bool


class ServerReady(TypedDict):
    """The server can infer."""

    ready: bool


class ModelReady(TypedDict):
    """The model can infer."""

    name: str
    ready: bool


class TensorMetadata(TypedDict):
    """A tensor of a model; a dimension of -1 may have any size."""

    name: str
    datatype: str
    shape: list[int]


class ModelMetadata(TypedDict):
    """Versions, input and output of a model."""

    name: str
    versions: list[str]
    platform: str
    inputs: list[TensorMetadata]
    outputs: list[TensorMetadata]


class TensorConfig(TypedDict):
    """A tensor of a model, in Triton's configuration."""

    name: str
    data_type: str
    dims: list[int]
    optional: NotRequired[bool]


class ConfigParameter(TypedDict):
    """Value of a parameter, in Triton's configuration."""

    string_value: str


class ModelConfig(TypedDict):
    """Triton's configuration; ``parameters`` list all datatypes that the model accepts."""

    name: str
    platform: str
    backend: str
    version_policy: dict[str, dict[str, list[str]]]
    max_batch_size: int
    input: list[TensorConfig]
    output: list[TensorConfig]
    model_transaction_policy: dict[str, bool]
    parameters: dict[str, ConfigParameter]


class Duration(TypedDict):
    """Number of events, and their total time in nanoseconds."""

    count: int
    ns: int


class InferenceDurations(TypedDict):
    """Durations of the stages of a model's inferences."""

    success: Duration
    fail: Duration
    queue: Duration
    compute_input: Duration
    compute_infer: Duration
    compute_output: Duration
    cache_hit: Duration
    cache_miss: Duration


class BatchStatistics(TypedDict):
    """Durations of the stages for one batch size; each inference is a batch of 1."""

    batch_size: int
    compute_input: Duration
    compute_infer: Duration
    compute_output: Duration


class ModelStatistics(TypedDict):
    """Statistics of one version of a model; ``last_inference`` is Unix time in milliseconds."""

    name: str
    version: str
    last_inference: int
    inference_count: int
    execution_count: int
    inference_stats: InferenceDurations
    batch_stats: list[BatchStatistics]


class StatisticsReport(TypedDict):
    """Statistics of versions of models."""

    model_stats: list[ModelStatistics]


class IndexEntry(TypedDict):
    """A version of a model in the repository index."""

    name: str
    version: str
    state: str


class Nothing(TypedDict):
    """An empty object: the request succeeded."""


class LogSettings(TypedDict):
    """Triton's log settings."""

    log_file: str
    log_info: bool
    log_warning: bool
    log_error: bool
    log_verbose_level: int
    log_format: str


class TraceSettings(TypedDict):
    """Triton's trace settings."""

    trace_level: list[str]
    trace_rate: str
    trace_count: str
    log_frequency: str
    trace_file: str
    trace_mode: str


class SystemRegion(TypedDict):
    """A registered part of a POSIX shared memory object; sizes in bytes."""

    name: str
    key: str
    offset: int
    byte_size: int


class CudaRegion(TypedDict):
    """A registered part of a device's memory; sizes in bytes."""

    name: str
    device_id: int
    byte_size: int
