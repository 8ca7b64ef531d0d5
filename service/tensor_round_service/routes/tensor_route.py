"""What every route that takes tensors has around it: a lease, refusals, the request's id.

Plain ASGI: the application leads to it past the framework.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from functools import partial
from typing import Any

from tensor_round.errors import Draining, RequestRefused

from ..answers import Again, Answer, LastWords, Send
from ..buffers import Lease
from ..direct import Header, SenderGone, direct_exchange
from ..engine import Engine
from ..failures import FAILED, NO_MEMORY, refusal_for
from ..receive import Receive
from ..request_id import request_id_header
from .repeated import Repeated, failed

Scope = MutableMapping[str, Any]
#: Reads a request and works on it; raises the :class:`RequestRefused` there is to say.
Work = Callable[[Scope, Receive, Lease], Awaitable[Answer]]


class TensorRoute:
    """An ASGI endpoint: one request's memory, its answer or its refusal in the face's form."""

    def __init__(
        self, engine: Engine, work: Work, refuse: Callable[[RequestRefused], Answer]
    ) -> None:
        self._engine = engine
        self._work = work
        self._refuse = refuse
        self._last_words = {
            failure.code: LastWords(refuse(failure)) for failure in (NO_MEMORY, FAILED)
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        with self._engine.lease() as lease:
            try:
                answer = await self._work(scope, receive, lease)
            except SenderGone:
                lease.settle()  # what was to fill the buffers is gone
                return
            except asyncio.CancelledError:
                # Only a server that leaves does that. Where a thread still works on the
                # buffers it goes on: they are nobody else's any more.
                refusal = Draining("the service stopped before it was done", retry_after=1)
                await self._send(self._refuse(refusal), scope, send)
                return
            except Exception as error:  # whatever it is, its sender gets an answer
                answer = self._refuse(refusal_for(error))
            exchange = direct_exchange(scope)
            if answer.again and exchange and answer.nbytes < exchange.repeatable_bytes:
                exchange.offer(partial(self._repeat, answer.again))
            if await self._send(answer, scope, send):
                lease.settle()

    def _repeat(self, again: Again, came: memoryview, own_id: bytes) -> Repeated | None:
        """Take on one request more of a head that was understood before."""
        lease = self._engine.lease()
        try:
            begun = again(came, lease)
        except Exception as error:  # who asks for the answer gets the refusal
            begun = failed(lease, error)
        if begun is None:
            lease.end(settled=True)
            return None
        return Repeated(lease, *begun, own_id, self._refusals)

    def _refusals(self, error: Exception, request_id: Header) -> Iterator[Answer]:
        """The refusal for an exception, and what was made beforehand if that cannot be sent."""
        failure = refusal_for(error)
        refusal = self._refuse(failure)
        refusal.headers.append(request_id)
        yield refusal
        if failure.code in self._last_words:
            yield self._last_words[failure.code]

    async def _send(self, answer: Answer, scope: Scope, send: Send) -> bool:
        """Send an answer, or why it cannot be sent; whether its memory is free on return."""
        exchange = direct_exchange(scope)
        request_id = request_id_header(scope)
        answer.headers.append(request_id)
        try:
            return await answer.send(send, exchange)
        except asyncio.CancelledError:  # it was not taken by the time the server leaves
            if exchange is None:
                raise
            exchange.hang_up()
            return False
        except (MemoryError, RuntimeError) as error:
            refusals = self._refusals(error, request_id)
        for last in refusals:
            with contextlib.suppress(MemoryError, RuntimeError):
                return await last.send(send, exchange)
        if exchange is not None:  # an answer has begun, or none can be given
            exchange.hang_up()
        return False
