"""The JSON documents that describe the service and its models, as types.

Those of the Open Inference Protocol are Triton's.
"""

from __future__ import annotations

from typing_extensions import TypedDict  # typing's own is enough for pydantic from Python 3.12 on

#: The service's name, and its distribution's.
NAME = "tensor-round"


class Links(TypedDict):
    """Paths of the service, by what is there."""

    docs: str
    openapi: str
    operators: str
    conformance: str
    livez: str
    readyz: str
    round: str
    compare: str
    v2: str


class ServiceInfo(TypedDict):
    """The service, and where to go from here."""

    name: str
    version: str
    links: Links


class OperatorVersion(TypedDict):
    """A version of a dialect's operator, and what it takes."""

    name: str
    selected_by: list[str | int]
    dtypes: list[str]
    min_rank: int
    max_rank: int


class DialectInfo(TypedDict):
    """A dialect: its operator's versions, its names of dtypes and of modes."""

    operator: str
    version_field: str | None
    versions: list[OperatorVersion]
    dtypes: dict[str, str]
    mode_field: str | None
    modes: dict[str, str]
    default_rounding: str | None


class Limits(TypedDict):
    """What a tensor, and all requests together, may have at most."""

    max_tensor_bytes: int
    max_bytes_in_flight: int


class Terms(TypedDict):
    """The service's version, how many processes serve, and who may come in how."""

    version: str
    workers: int
    api_keys: bool
    tls: bool


class Catalog(TypedDict):
    """What can be asked for."""

    dialects: dict[str, DialectInfo]
    roundings: list[str]
    dtypes: list[str]
    limits: Limits


class Operators(Catalog):
    """What can be asked for, and on what terms."""

    service: Terms


class PatternDigest(TypedDict):
    """The SHA-256 of the results for all bit patterns, and whether it is the published one."""

    sha256: str
    matches_published: bool


class Conformance(TypedDict):
    """Digests by backend, dtype and rounding direction; and whether all are the published ones."""

    conforms: bool
    backends: dict[str, dict[str, dict[str, PatternDigest]]]


class Liveness(TypedDict):
    """The event loop turns."""

    status: str


class Readiness(TypedDict):
    """Requests are welcome, and what rounds them."""

    status: str
    backend: str


class ServerMetadata(TypedDict):
    """The server, and the extensions of the protocol that are on."""

    name: str
    version: str
    extensions: list[str]


class ServerLive(TypedDict):
    """The event loop turns."""

    live: bool


class ServerReady(TypedDict):
    """Requests can be served."""

    ready: bool


class ModelReady(TypedDict):
    """The model can infer."""

    name: str
    ready: bool


class TensorMetadata(TypedDict):
    """A tensor of a model; -1 is any size."""

    name: str
    datatype: str
    shape: list[int]


class ModelMetadata(TypedDict):
    """A model's versions, input and output."""

    name: str
    versions: list[str]
    platform: str
    inputs: list[TensorMetadata]
    outputs: list[TensorMetadata]


class TensorConfig(TypedDict):
    """A tensor of a model, in the words of Triton's configuration."""

    name: str
    data_type: str
    dims: list[int]


class ConfigParameter(TypedDict):
    """A parameter's value, as Triton has it."""

    string_value: str


class ModelConfig(TypedDict):
    """Triton's configuration; ``parameters`` say what the model takes besides FP32."""

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
    """How often, and for how many nanoseconds in all."""

    count: int
    ns: int


class InferenceDurations(TypedDict):
    """The stages of a model's inferences."""

    success: Duration
    fail: Duration
    queue: Duration
    compute_input: Duration
    compute_infer: Duration
    compute_output: Duration
    cache_hit: Duration
    cache_miss: Duration


class BatchStatistics(TypedDict):
    """The stages of inferences of one batch size; here each is a batch."""

    batch_size: int
    compute_input: Duration
    compute_infer: Duration
    compute_output: Duration


class ModelStatistics(TypedDict):
    """How often a version of a model was asked; ``last_inference`` in ms since the epoch."""

    name: str
    version: str
    last_inference: int
    inference_count: int
    execution_count: int
    inference_stats: InferenceDurations
    batch_stats: list[BatchStatistics]


class StatisticsReport(TypedDict):
    """The statistics of several versions of models."""

    model_stats: list[ModelStatistics]


class IndexEntry(TypedDict):
    """A version of a model in the repository's index."""

    name: str
    version: str
    state: str


class Nothing(TypedDict):
    """An empty object: it was done."""


class LogSettings(TypedDict):
    """What is logged, in Triton's words."""

    log_file: str
    log_info: bool
    log_warning: bool
    log_error: bool
    log_verbose_level: int
    log_format: str


class TraceSettings(TypedDict):
    """What is traced, in Triton's words."""

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
