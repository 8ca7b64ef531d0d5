"""What every route that takes tensors has around it: a lease, refusals, the request's id.

Plain ASGI: the application leads to it past the framework.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, MutableMapping
from functools import partial
from typing import Any

from tensor_round.errors import Draining, RequestRefused

from ..answers import Answer, LastWords, Send
from ..buffers import Lease
from ..direct import Respond, SenderGone, direct_exchange
from ..engine import Engine
from ..failures import FAILED, NO_MEMORY, refusal_for
from ..receive import Receive
from ..request_id import id_header, request_id_header

Scope = MutableMapping[str, Any]
#: Reads a request and works on it; raises the :class:`RequestRefused` there is to say.
Work = Callable[[Scope, Receive, Lease], Awaitable[Answer]]
#: An :class:`Answer`'s ``again``.
Again = Callable[[memoryview, Lease], Answer | None]


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
                exchange.repeat = partial(self._repeat, answer.again)
            if await self._send(answer, scope, send):
                lease.settle()

    def _repeat(self, again: Again, body: memoryview, own_id: bytes, respond: Respond) -> bool:
        """Answer one request more of a head that was understood before."""
        with self._engine.lease() as lease:
            try:
                answer = again(body, lease)
            except Exception as error:  # as above
                answer = self._refuse(refusal_for(error))
            if answer is None:
                return False
            answer.headers.append(id_header(own_id))
            try:
                sending = respond(answer.status, answer.fields(), answer.parts)
            except (MemoryError, RuntimeError):  # nothing went out, and there is another way
                return False
            if sending is None:
                lease.settle()
            else:
                lease.outlast(sending)
        return True

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
            failure = refusal_for(error)
            refusal = self._refuse(failure)
        refusal.headers.append(request_id)
        for last in (refusal, self._last_words[failure.code]):
            with contextlib.suppress(MemoryError, RuntimeError):
                return await last.send(send, exchange)
        if exchange is not None:  # an answer has begun, or none can be given
            exchange.hang_up()
        return False
