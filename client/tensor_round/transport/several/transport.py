"""The transport of several addresses."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...errors import (
    ConnectionFailed,
    DeadlineExceeded,
    DeviceOutOfMemory,
    DigestMismatch,
    Overloaded,
    ProtocolViolation,
    RequestRefused,
    TensorRoundError,
)
from ...messages.request import Request
from ...messages.response_readers import ResponseReader
from ..address import Address
from ..concurrency import Concurrency
from ..deadline import Deadline
from ..interface import Response, Transport
from .balancer import Balancer, Endpoint
from .bounded import DOCUMENT_SECONDS, get_document, within
from .directory import Directory

logger = logging.getLogger(__name__)

#: Errors, and statuses of a service or a proxy before it, after which an address is ejected.
_FAILURES = ConnectionFailed, DeadlineExceeded, DigestMismatch, ProtocolViolation
_GONE = frozenset({502, 503, 504})
#: Seconds for which a busy address that states no Retry-After is avoided.
_BUSY_SECONDS = 1.0
#: Seconds for which nobody else probes an address that is being probed.
_PROBE_SECONDS = 2 * DOCUMENT_SECONDS


class SeveralTransport(Transport):
    """Sends each request to the address with the least outstanding bytes.

    ``connect`` makes the transport of one address. With a ``directory`` the addresses are those
    that it lists.
    """

    is_spread = True

    def __init__(
        self,
        addresses: Sequence[Address],
        connect: Callable[[Address], Transport],
        concurrency: Concurrency,
        directory: Directory | None,
    ) -> None:
        self._connect = connect
        self._concurrency = concurrency
        self._directory = directory
        self._is_directory_lost = False
        self._balancer = Balancer[Transport]()
        self._use(addresses)

    @property
    def addresses(self) -> int:
        """The number of addresses; 0 while the directory was not read."""
        return len(self._balancer)

    async def send(self, request: Request, deadline: Deadline) -> SpreadResponse:
        """Send a request to one address, and receive the head of its response."""
        if self._directory is not None:
            await self._refresh(self._directory, deadline)
        began = time.monotonic()
        if (ejected := self._balancer.claim_probe(began, _PROBE_SECONDS)) is not None:
            await self._probe(ejected, deadline)
            began = time.monotonic()
        nbytes = len(request.body)
        endpoint = self._balancer.choose(nbytes, began)
        assert endpoint is not None, "a list of addresses is never empty"
        try:
            response = await endpoint.target.send(request, deadline)
        except BaseException as error:
            await self.end(endpoint, nbytes)
            if isinstance(error, asyncio.CancelledError) and not deadline.allows(0.001):
                # Cancelled at the deadline: the service may hang.
                self._eject(endpoint, began, "it did not respond in time")
            elif isinstance(error, TensorRoundError):
                self._record(endpoint, began, error)
                error.restate(f"{endpoint.url}: {error.detail}")
            raise
        return SpreadResponse(self, endpoint, nbytes, began, response)

    def record_failure(self, response: Response, error: TensorRoundError) -> str:
        """Record the error in a response; the URL of its address."""
        assert isinstance(response, SpreadResponse)
        self._record(response.endpoint, response.began, error)
        return response.endpoint.url

    def record_success(self, response: SpreadResponse) -> None:
        """Record a complete response; it may still be a refusal."""
        if response.status < 500 and response.status != 429:
            self._readmit(response.endpoint, response.began)

    async def end(self, endpoint: Endpoint[Transport], nbytes: int) -> None:
        """End a request; close what the last one of a removed address leaves."""
        if self._balancer.release(endpoint, nbytes):
            await endpoint.target.close()

    async def close(self) -> None:
        """Close idle connections now, and the others when their responses are closed."""
        for endpoint in self._balancer.endpoints():
            await endpoint.target.close()
        if self._directory is not None:
            await self._directory.close()

    def _use(self, addresses: Sequence[Address]) -> list[Endpoint[Transport]]:
        """Use these addresses from now on; the removed ones without requests."""
        by_url = {address.url: address for address in addresses}
        return self._balancer.replace(by_url, lambda url: self._connect(by_url[url]))

    async def _refresh(self, directory: Directory, deadline: Deadline) -> None:
        """Read the directory if that is due; without it the last list stays in use."""
        now, is_first = time.monotonic(), not self.addresses
        is_due = directory.claim(now, is_urgent=not self._balancer.has_open(now))
        if not is_due and not is_first:
            return
        try:
            found = await within(DOCUMENT_SECONDS, deadline, self._concurrency, directory.read)
        except TensorRoundError as error:
            if is_first:
                error.restate(f"{directory.url}: {error.detail}")
                raise
            if not self._is_directory_lost:
                logger.warning("%s: %s; its last list is used", directory.url, error.detail)
            self._is_directory_lost = True
            return
        self._is_directory_lost = False
        for removed in self._use(found):
            await removed.target.close()

    async def _probe(self, endpoint: Endpoint[Transport], deadline: Deadline) -> None:
        """Ask an ejected address whether it is ready."""
        began = time.monotonic()
        try:
            await within(
                DOCUMENT_SECONDS,
                deadline,
                self._concurrency,
                lambda part: get_document(endpoint.target, "/readyz", part),
            )
        except TensorRoundError as error:
            if self._record(endpoint, began, error):
                return
        self._readmit(endpoint, began, is_probe=True)

    def _record(self, endpoint: Endpoint[Transport], began: float, error: TensorRoundError) -> bool:
        """Eject or avoid an address after an error that tells against it; whether that is so."""
        now = time.monotonic()
        status = error.status if isinstance(error, RequestRefused) else 0
        if isinstance(error, Overloaded | DeviceOutOfMemory) or status == 429:
            assert isinstance(error, RequestRefused)
            self._balancer.avoid(endpoint, now, error.retry_after or _BUSY_SECONDS)
        elif isinstance(error, _FAILURES) or error.is_foreign or status in _GONE:
            self._eject(endpoint, began, error.detail)
        else:
            return False
        error.can_fail_over = self._balancer.has_open(now)
        return True

    def _eject(self, endpoint: Endpoint[Transport], began: float, reason: str) -> None:
        seconds = self._balancer.eject(endpoint, began, time.monotonic())
        if seconds is not None:
            logger.warning("%s is ejected for %.1f s: %s", endpoint.url, seconds, reason)

    def _readmit(
        self, endpoint: Endpoint[Transport], began: float, *, is_probe: bool = False
    ) -> None:
        if self._balancer.readmit(endpoint, began, is_probe=is_probe):
            logger.info("%s is used again", endpoint.url)


class SpreadResponse:
    """A response of one of the addresses; its request is outstanding until it is closed."""

    __slots__ = ("_nbytes", "_owner", "_response", "began", "endpoint", "fields", "status")

    def __init__(
        self,
        owner: SeveralTransport,
        endpoint: Endpoint[Transport],
        nbytes: int,
        began: float,
        response: Response,
    ) -> None:
        self.status = response.status
        self.fields: Mapping[str, str] = response.fields
        self.endpoint = endpoint
        self.began = began
        self._owner = owner
        self._nbytes = nbytes
        self._response = response

    async def receive(self, reader: ResponseReader[Any], deadline: Deadline) -> None:
        """Receive the whole body into a reader."""
        await self._response.receive(reader, deadline)
        self._owner.record_success(self)

    async def close(self) -> None:
        """Release the response; its request is no longer outstanding."""
        try:
            await self._response.close()
        finally:
            await self._owner.end(self.endpoint, self._nbytes)
