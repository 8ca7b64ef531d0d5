"""The transport of several addresses, of a list or of a fleet's directory."""

from __future__ import annotations

import asyncio
import heapq
import ipaddress
import logging
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from ..contract import errors
from ..contract.errors import ConnectionFailed, InvalidArgument, ProtocolViolation
from ..contract.quoting import shown
from .address import FLEETS, LOCAL, Address
from .balancer import Balancer, Endpoint
from .concurrency import CallAbandoned, Concurrency, Deadline, within
from .exchange import Request, ResponseReader, document_reader, get_request
from .http import Response, Transport

PATH = "/replicas"
#: Seconds after which it is read again, and while no address is open.
REFRESH_SECONDS, URGENT_SECONDS = 5.0, 1.0
#: The most replicas in a directory, and the most that a client uses, chosen at random.
MAX_REPLICAS, MAX_ADDRESSES = 10_000, 64
#: The networks of which anyone may have one of their own (RFC 1918, 6598, 4193).
_PRIVATE = tuple(
    ipaddress.ip_network(text)
    for text in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7")
)


class Reach(Enum):
    """From where a host is reached."""

    THIS_MACHINE = auto()
    PRIVATE_NETWORK = auto()
    ANYWHERE = auto()
    #: Whoever resolves the name says.
    NAMED = auto()

    @classmethod
    def of(cls, host: str) -> Reach:
        """The reach of a host's name or IP address."""
        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            return cls.THIS_MACHINE if host == "localhost" else cls.NAMED
        if address.is_loopback:
            return cls.THIS_MACHINE
        is_private = any(address in network for network in _PRIVATE)
        return cls.PRIVATE_NETWORK if is_private else cls.ANYWHERE


#: By the reach of a directory, those of the replicas that get a client's secrets on its word.
_TRUSTED = {
    Reach.THIS_MACHINE: (Reach.THIS_MACHINE, Reach.PRIVATE_NETWORK),
    Reach.PRIVATE_NETWORK: (Reach.PRIVATE_NETWORK,),
    Reach.NAMED: (Reach.PRIVATE_NETWORK,),
    Reach.ANYWHERE: (),
}


class Directory:
    """When the directory of one client is to be read, and what it says.

    Over plain HTTP anyone on the way can answer for it. So with ``has_secrets`` its replicas must
    be at its own host, or where only callers of the same network are.
    """

    def __init__(self, address: Address, transport: Transport, *, has_secrets: bool) -> None:
        self.url = address.url
        self.transport = transport
        self._address = address
        self._has_secrets = has_secrets
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
        if len(texts) < len(urls) or any(a.scheme in (LOCAL, *FLEETS) or a.uds for a in found):
            raise ProtocolViolation("a replica has no http or https url")
        for address in found:
            self._check(address)
        return found

    def _check(self, replica: Address) -> None:
        """Raise :class:`ProtocolViolation` if a replica must not get what clients send."""
        own = self._address
        if FLEETS[own.scheme] == "https":
            if replica.scheme != "https":
                raise ProtocolViolation(f"{shown(replica.url)} is not https, as rays:// demands")
            return
        is_trusted = Reach.of(replica.host) in _TRUSTED[Reach.of(own.host)]
        if self._has_secrets and replica.host != own.host and not is_trusted:
            raise ProtocolViolation(
                f"{shown(replica.url)} gets no API key and no headers on the word of ray://: "
                "it is neither the directory's host nor in its private network; use rays://"
            )


logger = logging.getLogger(__name__)

#: The most seconds for a directory, and for the readiness of an ejected address.
DOCUMENT_SECONDS = 1.0
#: Errors after which an address is ejected, and statuses of a service or a proxy before it.
_FAILURES = (
    *(errors.ConnectionFailed, errors.DeadlineExceeded),
    *(errors.DigestMismatch, errors.ProtocolViolation),
)
_GONE = 502, 503, 504
#: Errors after which it is avoided for its Retry-After, or else for so many seconds.
_BUSY = errors.Overloaded, errors.DeviceOutOfMemory
_BUSY_SECONDS = 1.0


class SeveralTransport(Transport):
    """Sends each request to the address with the least outstanding bytes.

    ``connect`` makes the transport of an address. A ``directory`` lists the addresses, of which
    there are none before it is read.
    """

    def __init__(
        self,
        addresses: Sequence[Address],
        connect: Callable[[Address], Transport],
        concurrency: Concurrency,
        directory: Directory | None = None,
    ) -> None:
        self._connect = connect
        self._concurrency = concurrency
        self._directory = directory
        self._is_directory_lost = False
        self.balancer = Balancer[Transport]()
        self._use(addresses)

    @property
    def addresses(self) -> int:
        """The number of addresses; 0 before the directory is read."""
        return len(self.balancer.endpoints)

    async def send(self, request: Request, deadline: Deadline) -> SpreadResponse:
        """Send a request to one address, and receive the head of its response."""
        if self._directory is not None:
            await self._refresh(self._directory, deadline)
        ejected = self.balancer.claim_probe(time.monotonic(), 2 * DOCUMENT_SECONDS)
        if ejected is not None:
            await self._probe(ejected, deadline)
        nbytes = len(request.body)
        while True:
            began = time.monotonic()
            endpoint = self.balancer.choose(nbytes, began)
            try:
                response = await endpoint.target.send(request, deadline)
            except BaseException as error:
                await self.end(endpoint, nbytes)
                if isinstance(error, errors.TensorRoundError):
                    self._record(endpoint, began, error)
                    if error.can_fail_over and not error.was_sent:
                        continue
                    error.restate(f"{endpoint.url}: {error.detail}")
                elif isinstance(error, asyncio.CancelledError):
                    self.record_cancellation(endpoint, began, deadline)
                raise
            return SpreadResponse(
                response.status, response.fields, self, endpoint, began, nbytes, response
            )

    def record_failure(self, response: Response, error: errors.TensorRoundError) -> str:
        """Record the error that a response ended in; the URL of its address."""
        assert isinstance(response, SpreadResponse)
        self._record(response.endpoint, response.began, error)
        return response.endpoint.url

    def record_cancellation(
        self, endpoint: Endpoint[Transport], began: float, deadline: Deadline
    ) -> None:
        """Record a request that was cancelled, if its deadline did so and not the caller."""
        if not deadline.allows(0.001):
            self._record(endpoint, began, errors.DeadlineExceeded("no response in time"))

    async def end(self, endpoint: Endpoint[Transport], nbytes: int) -> None:
        """End a request; close what the last one of a removed address leaves."""
        if self.balancer.release(endpoint, nbytes):
            await endpoint.target.close()

    async def close(self) -> None:
        """Close idle connections now, and the others when their responses are closed."""
        for endpoint in self.balancer.endpoints.values():
            await endpoint.target.close()
        if self._directory is not None:
            await self._directory.transport.close()

    def _use(self, addresses: Sequence[Address]) -> list[Endpoint[Transport]]:
        """Use these addresses from now on; the removed ones without requests."""
        by_url = {address.url: address for address in addresses}
        return self.balancer.replace(by_url, lambda url: self._connect(by_url[url]))

    async def _refresh(self, directory: Directory, deadline: Deadline) -> None:
        """Read the directory if that is due; if it cannot be read, the last list stays in use."""
        now, is_first = time.monotonic(), not self.addresses
        is_due = directory.claim(now, is_urgent=not self.balancer.has_open(now))
        if not is_due and not is_first:
            return
        try:
            document = await self._get(directory.transport, PATH, deadline)
            removed = self._use(directory.addresses(document))
        except errors.TensorRoundError as error:
            error.restate(f"{directory.url}: {error.detail}")
            if is_first:
                raise
            if not self._is_directory_lost:
                logger.warning("%s; the last list is used", error.detail)
            self._is_directory_lost = True
            return
        self._is_directory_lost = False
        for endpoint in removed:
            await endpoint.target.close()

    async def _probe(self, endpoint: Endpoint[Transport], deadline: Deadline) -> None:
        """Ask an ejected address whether it is ready."""
        began = time.monotonic()
        try:
            await self._get(endpoint.target, "/readyz", deadline)
        except errors.TensorRoundError as error:
            if self._record(endpoint, began, error) or not isinstance(error, errors.RequestRefused):
                return
        self.balancer.readmit(endpoint, began, is_probe=True)

    async def _get(self, transport: Transport, path: str, deadline: Deadline) -> dict[str, Any]:
        """The JSON object at a path, by one request of at most :data:`DOCUMENT_SECONDS`."""

        async def get(part: Deadline) -> dict[str, Any]:
            response = await transport.send(get_request(path), part)
            try:
                reader = document_reader(response.status, response.fields)
                await response.receive(reader, part)
                return reader.finish()
            finally:
                await response.close()

        return await within(DOCUMENT_SECONDS, deadline, self._concurrency, get)

    def _record(
        self, endpoint: Endpoint[Transport], began: float, error: errors.TensorRoundError
    ) -> bool:
        """Eject or avoid an address after an error that tells against it; whether that is so."""
        if isinstance(error, CallAbandoned):
            return False
        now = time.monotonic()
        refusal = error if isinstance(error, errors.RequestRefused) else None
        if refusal is not None and (refusal.status == 429 or isinstance(refusal, _BUSY)):
            self.balancer.avoid(endpoint, now, refusal.retry_after or _BUSY_SECONDS)
        elif (
            isinstance(error, _FAILURES)
            or error.is_foreign
            or (refusal and refusal.status in _GONE)
        ):
            self.balancer.eject(endpoint, began, now, error.detail)
        else:
            return False
        error.can_fail_over = self.balancer.has_open(now)
        return True


@dataclass(slots=True)
class SpreadResponse:
    """A response of one of the addresses; its request is outstanding until it is closed."""

    status: int
    fields: Mapping[str, str]
    owner: SeveralTransport
    endpoint: Endpoint[Transport]
    began: float
    nbytes: int
    response: Response

    async def receive(self, reader: ResponseReader[Any], deadline: Deadline) -> None:
        """Receive the whole body into a reader."""
        try:
            await self.response.receive(reader, deadline)
        except asyncio.CancelledError:
            self.owner.record_cancellation(self.endpoint, self.began, deadline)
            raise
        if self.status < 500 and self.status != 429:
            self.owner.balancer.readmit(self.endpoint, self.began)

    async def close(self) -> None:
        """Release the response, and end its request."""
        try:
            await self.response.close()
        finally:
            await self.owner.end(self.endpoint, self.nbytes)
