"""Name resolution in a thread of its own.

``getaddrinfo`` has no timeout. No call waits for the thread beyond its deadline, and the process
can exit while the thread still runs.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from .address import Address

#: Address family and address, as :mod:`socket` defines them.
SocketAddress = tuple[int, Any]


def resolve_host(address: Address) -> Future[list[SocketAddress]]:
    """At least one address of a host; OSError, or ValueError for an invalid host name."""
    found: Future[list[SocketAddress]] = Future()
    found.set_running_or_notify_cancel()
    try:
        # An IP address needs no name server, and no thread.
        found.set_result(_resolve(address, socket.AI_NUMERICHOST))
    except (OSError, ValueError):
        _in_a_thread(lambda: _resolve(address), found)
    return found


def _resolve(address: Address, flags: int = 0) -> list[SocketAddress]:
    found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM, flags=flags)
    return [(family, sockaddr) for family, _, _, _, sockaddr in found]


def _in_a_thread(
    work: Callable[[], list[SocketAddress]], found: Future[list[SocketAddress]]
) -> None:
    def run() -> None:
        try:
            result = work()
        except Exception as error:  # any: the future raises it in the waiting thread
            found.set_exception(error)
        else:
            found.set_result(result)

    try:
        threading.Thread(target=run, name="tensor-round-resolver", daemon=True).start()
    except RuntimeError as error:
        found.set_exception(OSError(f"no thread for name resolution can be started: {error}"))
