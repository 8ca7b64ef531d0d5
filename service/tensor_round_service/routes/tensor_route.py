"""What every route that takes tensors has around it: a lease, refusals, the request's id.

Plain ASGI: the application leads to it past the framework.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from tensor_round.errors import InternalError, RequestRefused

from ..answers import Answer, Send
from ..buffers import Lease
from ..direct import SenderGone, direct_exchange
from ..engine import Engine
from ..receive import Receive
from ..request_id import request_id_header

Scope = MutableMapping[str, Any]
#: Reads a request and works on it; raises the :class:`RequestRefused` there is to say.
Work = Callable[[Scope, Receive, Lease], Awaitable[Answer]]

logger = logging.getLogger(__name__)


class TensorRoute:
    """An ASGI endpoint: one request's memory, its answer or its refusal in the face's form."""

    def __init__(
        self, engine: Engine, work: Work, refuse: Callable[[RequestRefused], Answer]
    ) -> None:
        self._engine = engine
        self._work = work
        self._refuse = refuse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        with self._engine.lease() as lease:
            try:
                answer = await self._work(scope, receive, lease)
            except RequestRefused as refusal:
                answer = self._refuse(refusal)
            except SenderGone:
                lease.settle()  # what was to fill the buffers is gone
                return
            except Exception:  # whatever it is, its sender gets an answer, and the log the rest
                logger.exception("unforeseen failure")
                answer = self._refuse(InternalError("the service failed; its log has the fault"))
            answer.headers.append(request_id_header(scope))
            if await answer.send(send, direct_exchange(scope)):
                lease.settle()
