"""No wire at all: requests are answered in this process, by the service's engine.

What a request and its answer say is the same as over HTTP, and so are results and refusals. A
tensor whose elements lie alike in both goes from the caller's memory into the caller's memory.
"""

from __future__ import annotations

import importlib
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Protocol

from ..call import RoundCall
from ..errors import InvalidArgument
from ..messages.reader import Intake, feed
from ..messages.request import Request
from ..wire import native, strictjson
from .deadline import Deadline

#: Rounded between two looks at the deadline: 10 to 60 ms, and enough for all cores.
_PIECE_BYTES = 32 << 20
_DESCRIPTOR = native.OPERATOR_DESCRIPTOR.encode()


class Engine(Protocol):
    """The service's engine. It raises the service's refusals."""

    def resolve(self, descriptor: bytes, length: int) -> RoundCall:
        """The call that a descriptor stands for, with a payload of that many bytes."""

    def round_run(self, call: RoundCall, source: memoryview, target: memoryview) -> None:
        """Round whole elements of a call from one run of bytes into another, or in place."""

    def round_all(
        self, call: RoundCall, payload: memoryview, take: Callable[[memoryview], None]
    ) -> None:
        """Round a call of any layout, and give away the output, which is nobody's afterwards."""

    def compare(self, call: RoundCall, payload: memoryview) -> dict[str, Any]:
        """What the service says of a tensor at ``/compare``."""

    def document(self, method: str, path: str) -> dict[str, Any]:
        """What the service says at a path."""

    async def run(self, work: Callable[[], None], nbytes: int) -> None:
        """Do work on that many bytes, beside the event loop if they are many.

        It is over when this returns, even if that is because the wait was cancelled.
        """


def open_engine() -> Engine:
    """This process's engine; raises :class:`InvalidArgument` where it is not installed."""
    try:
        # By its name, and only when asked for: this package needs no service.
        module = importlib.import_module("tensor_round_service.local")
    except ModuleNotFoundError as error:
        raise InvalidArgument(
            f"local: needs the engine: pip install 'tensor-round[engine]' ({error.name} is missing)"
        ) from error
    engine: Engine = module.open_engine()
    return engine


class LocalTransport:
    """Answers in the calling thread, or for an asynchronous client beside its event loop."""

    is_in_process = True

    def __init__(self, *, is_async: bool) -> None:
        self._is_async = is_async
        open_engine()  # what is missing is told now, and what takes time begins

    async def send(self, request: Request, deadline: Deadline) -> LocalReply:
        """Find out what is asked for; a tensor is rounded when it is poured."""
        deadline.remaining()
        engine = open_engine()  # a child that was forked off has one of its own
        perform = engine.run if self._is_async else _at_once
        descriptor = dict(request.headers).get(_DESCRIPTOR)
        document: dict[str, Any] = {}
        if request.path in ("/round", "/compare") and descriptor is not None:
            call = engine.resolve(descriptor, len(request.body))
            if request.path == "/compare":
                compare = partial(engine.compare, call, request.body)
                await perform(lambda: document.update(compare()), _PIECE_BYTES)
                return LocalReply({"content-type": native.JSON}, _Document(document))
            return LocalReply(
                {
                    "content-type": native.OCTET_STREAM,
                    "output-descriptor": native.output_descriptor(call.output).decode(),
                },
                _Tensor(engine, call, request.body, perform),
            )
        await perform(
            lambda: document.update(engine.document(request.method, request.path)), _PIECE_BYTES
        )
        return LocalReply({"content-type": native.JSON}, _Document(document))

    async def close(self) -> None:
        """Nothing is open: the engine is the process's."""


class _Body(Protocol):
    async def pour(self, intake: Intake[Any], deadline: Deadline) -> None: ...


class LocalReply:
    """What a request comes to."""

    status = 200

    def __init__(self, fields: Mapping[str, str], body: _Body) -> None:
        self.fields = fields
        self.pour = body.pour

    async def close(self) -> None:
        """Nothing is left."""


class _Document:
    def __init__(self, document: dict[str, Any]) -> None:
        self._text = strictjson.dumps(document)

    async def pour(self, intake: Intake[Any], deadline: Deadline) -> None:
        feed(intake, self._text)


#: Does work that takes as long as so many bytes do.
_Perform = Callable[[Callable[[], None], int], Awaitable[None]]


class _Tensor:
    def __init__(
        self, engine: Engine, call: RoundCall, payload: memoryview, perform: _Perform
    ) -> None:
        self._engine = engine
        self._call = call
        self._payload = payload
        self._perform = perform

    async def pour(self, intake: Intake[Any], deadline: Deadline) -> None:
        call = self._call
        if call.is_in_place:
            await self._pour_run(intake, deadline)
            return
        round_all = partial(self._engine.round_all, call, self._payload, partial(feed, intake))
        await self._perform(round_all, call.nbytes)

    async def _pour_run(self, intake: Intake[Any], deadline: Deadline) -> None:
        """Round the elements to where the intake wants them; zeros come behind them."""
        layout = self._call.input
        end, done = layout.element_bytes, 0
        while done < end:
            deadline.remaining()
            room = intake.room()
            # Landings have room for whole elements.
            count = min(len(room), end - done, _PIECE_BYTES)
            source = self._payload[done : done + count]
            work = partial(self._engine.round_run, self._call, source, room[:count])
            await self._perform(work, count)
            intake.took(count)
            done += count
        feed(intake, bytes(layout.byte_length - end))


async def _at_once(work: Callable[[], None], nbytes: int) -> None:
    work()
