"""The transport of ``local:``: the service's engine in this process, without a network.

Requests, responses, results and refusals are the same as over HTTP. Where input and output have
the same layout, the engine rounds from the caller's memory into the caller's memory.
"""

from __future__ import annotations

import importlib
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Protocol

from ..contract.call import Call
from ..contract.errors import InvalidArgument
from ..contract.wire import http_fields, strictjson
from .exchange import Deadline, Receive, Request, ResponseReader, copy_into

#: Bytes rounded between two checks of the deadline: 10 to 60 ms, and enough for all cores.
_PIECE_BYTES = 32 << 20
_DESCRIPTOR = http_fields.OPERATOR_DESCRIPTOR.encode()


class Engine(Protocol):
    """The service's engine; its methods raise the service's refusals."""

    def resolve(self, descriptors: tuple[bytes, ...], length: int) -> Call:
        """The call of a descriptor with a payload of ``length`` bytes.

        That of two, a quantization and its inverse, is fake quantization.
        """

    def round_run(self, call: Call, start: int, source: memoryview, target: memoryview) -> None:
        """Round elements of a call, from byte ``start`` on, into another run, or in place."""

    def round_all(
        self, call: Call, payload: memoryview, take: Callable[[memoryview], None]
    ) -> None:
        """Round a call of any layout; pass the output to ``take``, which must copy it."""

    def compare(self, call: Call, payload: memoryview) -> dict[str, Any]:
        """The service's JSON response to a tensor at ``/compare``."""

    def document(self, method: str, path: str) -> dict[str, Any]:
        """The service's JSON response at a path."""

    async def run(self, work: Callable[[], None], nbytes: int) -> None:
        """Run ``work`` on ``nbytes`` bytes, in a thread if they are many.

        The work has ended when this returns, even if the wait for it was cancelled.
        """


def open_engine() -> Engine:
    """This process's engine; raises :class:`InvalidArgument` if it is not installed."""
    try:
        # Imported by name and on demand: this package does not depend on the service.
        module = importlib.import_module("tensor_round_service.local")
    except ModuleNotFoundError as error:
        raise InvalidArgument(
            "local: needs the engine: pip install 'tensor-round[compiled]' "
            f"({error.name} is missing)"
        ) from error
    engine: Engine = module.open_engine()
    return engine


class LocalTransport:
    """Rounds in the calling thread, or for an asynchronous client beside its event loop."""

    is_in_process = True

    def __init__(self, *, is_async: bool) -> None:
        self._is_async = is_async
        open_engine()  # raises now if it is missing, and starts its slow initialisation

    async def send(self, request: Request, deadline: Deadline) -> LocalResponse:
        """Resolve the request; a tensor is rounded when its response is received."""
        deadline.remaining()
        engine = open_engine()  # a forked child has its own
        run = engine.run if self._is_async else _run_here
        descriptors = tuple(value for name, value in request.fixed if name == _DESCRIPTOR)
        make_document = partial(engine.document, request.method, request.path)
        if request.path in ("/round", "/compare") and descriptors:
            call = engine.resolve(descriptors, len(request.body))
            if request.path == "/round":
                fields = {
                    "content-type": http_fields.OCTET_STREAM,
                    "output-descriptor": http_fields.output_descriptor(call.output).decode(),
                }
                receive = partial(_receive_tensor, engine, call, request.body, run)
                return LocalResponse(fields, receive)
            make_document = partial(engine.compare, call, request.body)
        document: dict[str, Any] = {}
        await run(lambda: document.update(make_document()), _PIECE_BYTES)
        text = strictjson.dumps(document)

        async def receive_text(reader: ResponseReader[Any], deadline: Deadline) -> None:
            copy_into(reader, text)

        return LocalResponse({"content-type": http_fields.JSON}, receive_text)

    async def close(self) -> None:
        """Do nothing: the engine belongs to the process."""


class LocalResponse:
    """A response without a network."""

    status = 200

    def __init__(self, fields: Mapping[str, str], receive: Receive) -> None:
        self.fields = fields
        self.receive = receive

    async def close(self) -> None:
        """Do nothing: nothing is open."""


#: Runs work on a number of bytes.
_Run = Callable[[Callable[[], None], int], Awaitable[None]]


async def _receive_tensor(
    engine: Engine,
    call: Call,
    payload: memoryview,
    run: _Run,
    reader: ResponseReader[Any],
    deadline: Deadline,
) -> None:
    """Round into the reader: piece by piece into its buffers, if both layouts are alike."""
    operands, results = call.input, call.output
    if not call.is_flat or call.parameters is not None:
        round_all = partial(engine.round_all, call, payload, partial(copy_into, reader))
        await run(round_all, call.nbytes)
        return
    most = _PIECE_BYTES * 8 // max(operands.dtype.width, results.dtype.width)
    start, done = 0, 0
    while done < results.element_bytes:
        deadline.remaining()
        # The buffers of sinks hold whole elements.
        buffer = reader.get_buffer()[: results.element_bytes - done]
        elements = min(most, len(buffer) * 8 // results.dtype.width)
        buffer = buffer[: results.dtype.nbytes(elements)]
        end = start + operands.dtype.nbytes(elements)
        source = payload[start:end]
        await run(partial(engine.round_run, call, start, source, buffer), len(buffer))
        reader.advance(len(buffer))
        start, done = end, done + len(buffer)
    # The padding behind the elements.
    copy_into(reader, bytes(results.byte_length - results.element_bytes))


async def _run_here(work: Callable[[], None], nbytes: int) -> None:
    work()
