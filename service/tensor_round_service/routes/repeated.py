"""One request more of a head that was understood before; see :class:`~..direct.Repetition`."""

from __future__ import annotations

import contextlib
from asyncio import Task
from collections.abc import Callable, Iterable

from tensor_round.errors import RequestRefused

from ..answers import Answer, Finish
from ..buffers import Lease
from ..direct import Header, Respond
from ..request_id import id_header

#: The refusals for an exception, the next in case that one cannot be sent.
Refusals = Callable[[Exception, Header], Iterable[Answer]]


class Repeated:
    """Has a lease of its own, which ends with it."""

    __slots__ = ("_finish", "_lease", "_own_id", "_refusals", "rest")

    def __init__(
        self, lease: Lease, rest: memoryview, finish: Finish, own_id: bytes, refusals: Refusals
    ) -> None:
        self._lease = lease
        self.rest = rest
        self._finish = finish
        self._own_id = own_id
        self._refusals = refusals

    def give_up(self) -> None:
        """Its sender is gone."""
        self._lease.end(settled=True)

    def answer(self, respond: Respond, refusal: RequestRefused | None = None) -> bool:
        """Answer it, with a refusal if it will never be whole; whether that could be done."""
        request_id = id_header(self._own_id)
        try:
            answer = self._finish(refusal)
            answer.headers.append(request_id)
            sending = respond(answer.status, answer.fields(), answer.parts)
        except Exception as error:  # whatever it is, its sender gets an answer
            self.give_up()
            for last in self._refusals(error, request_id):
                with contextlib.suppress(MemoryError, RuntimeError):
                    respond(last.status, last.fields(), last.parts)
                    return True
            return False
        if sending is None:
            self._lease.end(settled=True)
        else:
            sending.add_done_callback(self._sent)
        return True

    def _sent(self, sending: Task[None]) -> None:
        self._lease.end(settled=not sending.cancelled() and sending.exception() is None)


def failed(lease: Lease, error: Exception) -> tuple[memoryview, Finish]:
    """What is to be done where a request could not even be taken on."""
    lease.end(settled=True)

    def finish(_refusal: RequestRefused | None) -> Answer:
        raise error

    return memoryview(b""), finish
