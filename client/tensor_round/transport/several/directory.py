"""The directory of a fleet as the source of addresses."""

from __future__ import annotations

import heapq
import random

from ...errors import ConnectionFailed, InvalidArgument, ProtocolViolation
from ...messages.replicas import PATH, read_replicas
from ...quoting import shown
from ..address import FLEET, LOCAL, Address
from ..deadline import Deadline
from ..interface import Transport
from .bounded import get_document

#: Seconds after which the list is read again, and while no address is open.
REFRESH_SECONDS, URGENT_SECONDS = 5.0, 1.0
#: The most addresses of one client.
MAX_ADDRESSES = 64


class Directory:
    """Reads the list of a fleet's replicas, and tells when that is due.

    Of a large fleet each client uses a part, chosen at random. It keeps those that stay listed.
    """

    def __init__(self, url: str, transport: Transport) -> None:
        self.url = url
        self._transport = transport
        self._seed = random.getrandbits(64)
        self._read_at = float("-inf")

    def claim(self, now: float, *, is_urgent: bool) -> bool:
        """Whether the list is due; if it is, the caller must read it, and others need not."""
        # There is no lock: that two threads read it at once does no harm.
        if now < self._read_at + (URGENT_SECONDS if is_urgent else REFRESH_SECONDS):
            return False
        self._read_at = now
        return True

    async def read(self, deadline: Deadline) -> list[Address]:
        """The addresses of the replicas that this client uses, at least one.

        Raises :class:`ConnectionFailed`, also for an empty list, :class:`ProtocolViolation` and
        refusals.
        """
        document = await get_document(self._transport, PATH, deadline)
        addresses = set(map(_parse, read_replicas(document)))
        if not addresses:
            raise ConnectionFailed("the directory lists no replica")
        return heapq.nsmallest(MAX_ADDRESSES, addresses, key=lambda a: hash((self._seed, a)))

    async def close(self) -> None:
        """Close the connection."""
        await self._transport.close()


def _parse(url: str) -> Address:
    try:
        address = Address.parse(url)
    except InvalidArgument as error:
        raise ProtocolViolation(f"the directory lists {shown(url)}: {error.detail}") from None
    if address.scheme in (LOCAL, FLEET):
        raise ProtocolViolation(f"the directory lists a {address.scheme}: URL")
    return address
