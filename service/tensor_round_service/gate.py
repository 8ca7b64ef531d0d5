"""The gate of all requests: it checks, counts, logs and traces them."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Protocol

from tensor_round.contract.errors import Unimplemented
from tensor_round.contract.quoting import shown

from .auth.api_keys import Authenticator
from .auth.origins import HostCheck
from .engine.job import Observer
from .metrics.counts import Metrics
from .net.forwarded import TrustedProxies
from .net.head import METHODS, Head, traceparent_of

_ACCESS = logging.getLogger("tensor_round_service.access_log")

#: Fields of a line of text whose values may have spaces.
_QUOTED = frozenset({"key", "user_agent"})
#: Bytes of a User-Agent that are logged.
_USER_AGENT_BYTES = 256
#: Values of a span, by the names of OpenTelemetry's conventions.
Attributes = Mapping[str, str | int]
#: Status and code of a request, for metrics and log.
Outcome = tuple[str, str]
#: The outcome of a request whose caller left before its response, which has neither.
ABANDONED: Outcome = ("499", "client_disconnected")


class Span(Protocol):
    """The span of a request."""

    def observing(self, observer: Observer, ends: tuple[Attributes, str] | None = None) -> Observer:
        """Return the observer of a job of the request, which reports to ``observer``, too.

        With ``ends``, the arguments of :meth:`end`, the span ends with the job.
        """

    def end(self, attributes: Attributes, failure: str = "") -> None:
        """End the span; ``failure`` is the type of the server's error."""


@dataclass(eq=False)
class Gate:
    """What all requests of a process pass."""

    #: None if every host is allowed.
    check_host: HostCheck | None = None
    #: None if every caller is allowed.
    authenticator: Authenticator | None = None
    #: Observes jobs, too. None if nothing is counted.
    metrics: Metrics | None = None
    logs_access: bool = False
    #: Proxies that say for whom they ask; None if nobody is believed.
    proxies: TrustedProxies | None = None
    #: Paths whose requests have no line if they got 200.
    unlogged: AbstractSet[str] = frozenset()
    #: Begins the span of a request with these name and attributes; None without traces.
    begin_span: Callable[[Head, str, Attributes], Span] | None = None

    def check(self, head: Head, *, is_preflight: bool = False) -> str:
        """Raise the refusal of a request by its head, or return and count the label of its key.

        The label is empty if the request needs no key, as a preflight request.
        """
        if head.fault is not None:
            raise head.fault
        if self.check_host is not None:
            self.check_host(head.authority)
        if head.method not in METHODS:
            raise Unimplemented(f"the service does not know the method {shown(head.method)}")
        if self.authenticator is None or is_preflight:
            return ""
        label = self.authenticator.check(head)
        if label and self.metrics is not None:
            self.metrics.key_requests(label)[0] += 1
        return label

    def client_of(self, head: Head | None, peer: str | None) -> str | None:
        """The caller's IP address, as trusted proxies say it; that of the peer if it is none."""
        return peer if self.proxies is None or head is None else self.proxies.client_of(head, peer)

    def route_of(self, path: str) -> str:
        """The route of a path, out of a few."""
        return "other" if self.metrics is None else self.metrics.route_of(path)

    def count(self, path: str, outcome: Outcome, received: int, sent: int, seconds: float) -> None:
        """Count a request without a job, the lengths of both bodies in bytes, and its duration."""
        if self.metrics is not None:
            self.metrics.responded(path, outcome, received, sent, seconds)

    def log(
        self,
        head: Head | None,
        path: str,
        outcome: Outcome,
        *,
        received: int,
        sent: int,
        seconds: float,
        client: str | None,
        key: str,
        request_id: bytes,
    ) -> None:
        """Log a request that is over, if requests are logged; ``head`` is None if it is malformed.

        The line has no payload, query or key. ``received`` and ``sent`` are the lengths of both
        bodies in bytes; ``received`` is that of an incomplete head. ``seconds`` began with the end
        of the head, or with the first byte of an incomplete one. ``client`` is the peer's IP
        address, None on a Unix socket, and ``key`` the label of its API key.
        """
        status, code = outcome
        if not self.logs_access or (status == "200" and path in self.unlogged):
            return
        fields = {
            "status": int(status),
            "code": code or None,
            "received_bytes": received,
            "sent_bytes": sent,
            "duration_ms": round(seconds * 1e3, 3),
            "client": self.client_of(head, client),
            "key": key or None,
            "user_agent": _user_agent(head),
            "request_id": request_id.decode() or None,
            "traceparent": traceparent_of(head),
        }
        known = {name: value for name, value in fields.items() if value is not None}
        method = None if head is None else head.method
        # No space: it separates the fields.
        shown = ascii(path)[1:-1].replace(" ", "\\x20")
        quoted = {name: json.dumps(known[name]) for name in _QUOTED & known.keys()}
        text = "".join(f" {name}={value}" for name, value in {**known, **quoted}.items())
        extra = {"event": "request", "method": method, "path": path, **known}
        _ACCESS.info("%s %s%s", method or "-", shown, text, extra=extra)


def _user_agent(head: Head | None) -> str | None:
    """The program that asks, as it says; None if it says nothing."""
    value = None if head is None else head.values.get(b"user-agent")
    return None if not value else value[:_USER_AGENT_BYTES].decode("utf-8", "replace")
