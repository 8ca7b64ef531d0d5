"""The directory of a fleet, ``GET /replicas``: the URLs of the replicas that serve now."""

from __future__ import annotations

import heapq
import random
from collections.abc import Mapping
from typing import Any

from ...contract.errors import ConnectionFailed, InvalidArgument, ProtocolViolation
from ..address import FLEET, LOCAL, Address
from ..interface import Transport

PATH = "/replicas"
#: Seconds after which it is read again, and while no address is open.
REFRESH_SECONDS, URGENT_SECONDS = 5.0, 1.0
#: The most replicas in a directory, and the most that a client uses, chosen at random.
MAX_REPLICAS, MAX_ADDRESSES = 10_000, 64


class Directory:
    """When the directory of one client is to be read, and what it says."""

    def __init__(self, url: str, transport: Transport) -> None:
        self.url = url
        self.transport = transport
        self._seed = random.getrandbits(64)
        self._read_at = float("-inf")

    def claim(self, now: float, *, is_urgent: bool) -> bool:
        """Whether the caller is to read the directory, and others meanwhile are not."""
        # Without a lock two threads may read it at once, which does no harm.
        if now < self._read_at + (URGENT_SECONDS if is_urgent else REFRESH_SECONDS):
            return False
        self._read_at = now
        return True

    def addresses(self, document: Mapping[str, Any]) -> list[Address]:
        """The addresses to use; those in use stay so while they are listed.

        The document is ``{"replicas": [{"url": "http://10.0.0.5:8000"}]}``; further members are
        ignored. Raises :class:`ProtocolViolation` for another one, and :class:`ConnectionFailed`
        without replicas.
        """
        replicas = document.get("replicas")
        if not isinstance(replicas, list) or len(replicas) > MAX_REPLICAS:
            raise ProtocolViolation(f"replicas is no list of at most {MAX_REPLICAS} replicas")
        if not replicas:
            raise ConnectionFailed("there are no replicas")
        urls = [replica.get("url") if isinstance(replica, dict) else None for replica in replicas]
        texts = [url for url in urls if isinstance(url, str)]
        chosen = heapq.nsmallest(MAX_ADDRESSES, set(texts), key=lambda u: hash((self._seed, u)))
        try:
            found = [Address.parse(url) for url in chosen]
        except InvalidArgument as error:
            raise ProtocolViolation(f"a replica's url is wrong: {error.detail}") from None
        if len(texts) < len(urls) or any(address.scheme in (LOCAL, FLEET) for address in found):
            raise ProtocolViolation("a replica has no http, https or unix url")
        return found
