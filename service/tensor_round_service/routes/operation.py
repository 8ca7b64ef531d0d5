"""What a route does with the tensor of a request, whatever its representation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from tensor_round.contract.call import Call
from tensor_round.contract.layout import Layout
from tensor_round.contract.progress import Pause
from tensor_round.contract.wire import http_fields

from ..backends import Bytes
from ..engine.job import Job
from ..net.response import FixedFields, Response, field_name, of_type

if TYPE_CHECKING:
    from .json_document import TensorDocument

_EXECUTION_BACKEND = field_name(http_fields.EXECUTION_BACKEND)
_SERVER_TIMING = field_name(http_fields.SERVER_TIMING)
_JSON = of_type(http_fields.JSON)


@dataclass(frozen=True, slots=True)
class Plan:
    """A request resolved and checked, before its tensor is received."""

    call: Call
    #: Name of the dialect.
    dialect: str
    #: Memory that the request needs, in bytes.
    needed_bytes: int
    #: See :func:`.cost.call_cost`.
    cost: int
    #: Of the response, if it has the representation of the request.
    fixed: FixedFields
    #: The header of a .npy file.
    header: bytes = b""
    #: Whether the elements are big-endian.
    is_swapped: bool = False
    #: The layout in a .npy file if operands or results have 4 bits: each has a byte there.
    stored: Layout | None = None


class TensorOperation(Protocol):
    """An operation on one tensor: :mod:`.round` and ``compare`` have one each."""

    #: Parameters of the query with a .npy file, and with a JSON document.
    npy_query: tuple[str, ...]
    json_query: tuple[str, ...]
    #: The least cost of work on a document; see :meth:`.Engine.run`.
    least_cost: int
    #: Whether a large tensor is rounded while it arrives.
    overlaps: bool

    def needed_bytes(self, call: Call) -> int:
        """The memory that a call needs; raises a refusal for one that the route does not have."""

    async def respond(self, plan: Plan, memory: Bytes, job: Job) -> Response:
        """Work on a received tensor."""

    def respond_to_document(
        self, document: TensorDocument, memory: Bytes, job: Job, pause: Pause
    ) -> list[bytes]:
        """Work on the tensor of a document; return the JSON of the response, in parts."""

    def text_bytes(self, document: TensorDocument) -> int:
        """The memory for the JSON of the response; raises a refusal if there would be too much."""


def response(fixed: FixedFields, parts: Sequence[bytes | memoryview], job: Job) -> Response:
    """A response with the times of its job."""
    receive, queue = job.receive_seconds * 1e3, job.queue_seconds * 1e3
    execute = job.execute_seconds * 1e3
    durations = f"receive;dur={receive:.3f}, queue;dur={queue:.3f}, execute;dur={execute:.3f}"
    headers = [
        (_EXECUTION_BACKEND, job.executed_by.encode()),
        (_SERVER_TIMING, durations.encode()),
    ]
    return Response(200, fixed, parts, headers)


def json_response(parts: Sequence[bytes], job: Job) -> Response:
    """A response of JSON, with the times of its job."""
    return response(_JSON, parts, job)
