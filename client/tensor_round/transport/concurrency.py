"""How a client waits, and what it does at once: the types of work, in threads or in tasks."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

T = TypeVar("T")
#: Work that is done once.
Task = Callable[[], Coroutine[Any, Any, T]]
#: Work on one of many items.
Work = Callable[[T], Coroutine[Any, Any, None]]

if TYPE_CHECKING:
    from .asynchronous import AsyncPool, AsyncStream, Tasks
    from .blocking import BlockingStream, Pool, Threads
    from .http import HTTPTransport
    from .httpx2_transport import Httpx2Transport
    from .local_transport import LocalTransport

    #: How a client waits, and does several things at once.
    Concurrency: TypeAlias = Threads | Tasks
    #: A pool of connections.
    Connections: TypeAlias = Pool | AsyncPool
    #: Sends requests to a service. Its methods raise :class:`ConnectionFailed`,
    #: :class:`DeadlineExceeded`, :class:`ProtocolViolation` and :class:`InvalidArgument`; one that
    #: ``is_in_process``, whose responses cannot be cut off or garbled, :class:`RequestRefused` too.
    Transport: TypeAlias = HTTPTransport | Httpx2Transport | LocalTransport
    #: A connected stream; its methods raise OSError when the connection breaks.
    Stream: TypeAlias = BlockingStream | AsyncStream
