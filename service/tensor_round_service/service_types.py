"""Types of the JSON documents that describe the service."""

from __future__ import annotations

from typing import NotRequired

# typing's own is enough for pydantic from Python 3.12 on
from typing_extensions import TypedDict

from tensor_round.contract.dtypes import DTYPES
from tensor_round.contract.operators import registry
from tensor_round.contract.rounding import Rounding

#: Name of the service and of its distribution.
NAME = "tensor-round"


class ServiceInfo(TypedDict):
    """Name, version and paths of the service."""

    name: str
    version: str
    links: dict[str, str]


class OperatorModel(TypedDict):
    """An operator's model in ``/v2``: its name, and those of its tensors and of its mode.

    ``parameters`` are the inputs with the scale and the zero point of a quantization.
    """

    name: str
    input: str
    output: str
    mode_parameter: str | None
    parameters: list[str]


class OperatorVersion(TypedDict):
    """A version of an operator, with the dtypes and ranks that it accepts.

    ``scales`` and ``results`` are the dtypes of the scale and the result of a quantization.
    """

    name: str
    model_version: str
    selected_by: list[str | int]
    dtypes: list[str]
    min_rank: int
    max_rank: int
    scales: list[str]
    results: list[str]


class OperatorInfo(TypedDict):
    """An operator of a dialect: its versions, and the dialect's names for dtypes and modes.

    ``kind`` is round, cast, quantize or dequantize. ``word`` is the operator in one word, in which
    ``{mode}`` and ``{version}`` are replaced.
    ``unsigned_dtypes`` has the names that stand for unsigned integers where the operation says so.
    ``target_field`` is the field with the type of the result, and ``unspecified`` says what is done
    where the specification leaves it open; ``open``, of casts alone, with numbers beyond an integer
    type.
    """

    operator: str
    kind: str
    word: str
    model: OperatorModel
    version_field: str | None
    versions: list[OperatorVersion]
    dtypes: dict[str, str]
    unsigned_dtypes: dict[str, str]
    mode_field: str | None
    modes: dict[str, str]
    default_rounding: str | None
    target_field: str | None
    open: str | None
    unspecified: dict[str, str]


class DialectInfo(OperatorInfo):
    """A dialect: its first operator's fields, and all its operators.

    ``operator_field`` is the descriptor's field that tells the operator.
    """

    title: str
    operator_field: str
    operators: list[OperatorInfo]


class Limits(TypedDict):
    """Upper limits of one tensor, and of all requests together, in bytes."""

    max_tensor_bytes: int
    max_bytes_in_flight: int


class Terms(TypedDict):
    """Version of the service, number of workers, and whether it has API keys and TLS."""

    version: str
    workers: int
    api_keys: bool
    tls: bool


class Catalog(TypedDict):
    """Dialects, roundings, dtypes and limits."""

    dialects: dict[str, DialectInfo]
    roundings: list[str]
    dtypes: list[str]
    limits: Limits


class Execution(TypedDict):
    """What rounds: the backend, and its devices."""

    backend: str
    devices: list[str]


class Operators(Catalog):
    """The catalog, how the service is deployed, and its backend."""

    service: Terms
    execution: Execution


class PatternDigest(TypedDict):
    """SHA-256 of the results for all bit patterns, and whether it equals the published one."""

    sha256: str
    matches_published: bool


class Conformance(TypedDict):
    """Digests by backend, dtype and rounding, and whether all equal the published ones.

    ``casts``, ``quantizations`` or ``dequantizations``, if asked for, have digests of these
    operators by backend, dtype and target type.
    """

    conforms: bool
    backends: dict[str, dict[str, dict[str, PatternDigest]]]
    casts: NotRequired[dict[str, dict[str, dict[str, PatternDigest]]]]
    quantizations: NotRequired[dict[str, dict[str, dict[str, PatternDigest]]]]
    dequantizations: NotRequired[dict[str, dict[str, dict[str, PatternDigest]]]]


class Liveness(TypedDict):
    """The event loop runs."""

    status: str


class Readiness(TypedDict):
    """The service accepts requests; ``backend`` names its backend."""

    status: str
    backend: str


def catalog(limits: Limits) -> Catalog:
    """The catalog, with these limits."""
    return {
        "dialects": registry.catalog(),
        "roundings": [rounding.value for rounding in Rounding],
        "dtypes": [dtype.name for dtype in DTYPES],
        "limits": limits,
    }
