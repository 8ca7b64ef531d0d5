"""Looking up a host's addresses, which the system does for as long as it likes.

So it has a thread of its own, which no call waits for beyond its deadline, and no process
at its end.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from .address import Address

#: Address family and socket address, as :mod:`socket` has them.
Place = tuple[int, Any]


def look_up(address: Address) -> Future[list[Place]]:
    """The places of a host, one at least; OSError, or ValueError for what is no host's name."""
    found: Future[list[Place]] = Future()
    found.set_running_or_notify_cancel()
    try:
        # Numbers need no name server; most services are called by one.
        found.set_result(_places(address, socket.AI_NUMERICHOST))
    except (OSError, ValueError):
        _in_a_thread(lambda: _places(address), found)
    return found


def _places(address: Address, flags: int = 0) -> list[Place]:
    found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM, flags=flags)
    return [(family, place) for family, _, _, _, place in found]


def _in_a_thread(work: Callable[[], list[Place]], found: Future[list[Place]]) -> None:
    def run() -> None:
        try:
            result = work()
        except Exception as error:  # whoever waits for the future raises it
            found.set_exception(error)
        else:
            found.set_result(result)

    try:
        threading.Thread(target=run, name="tensor-round-look-up", daemon=True).start()
    except RuntimeError as error:
        found.set_exception(OSError(f"there is no thread to look it up: {error}"))
