"""The entry point of HTTP/1.1's requests: past the gate, then to a tensor route or FastAPI."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass

from .auth.api_keys import CREDENTIALS
from .auth.origins import SAFE_METHODS, Cors, check_origin
from .engine.job import Job
from .engine.memory import Memory
from .failures import FAILED, refusal_for
from .gate import ABANDONED, Gate, Outcome, Span
from .net.asgi import (
    AsgiApplication,
    AsgiRequest,
    Receive,
    Scope,
    Send,
    respond_by_asgi,
    send_response,
)
from .net.bodies import ClientDisconnected
from .net.head import METHODS, Head, MalformedRequest, traceparent_of
from .net.request import Request
from .net.response import (
    CACHE_CONTROL,
    NO_STORE,
    REQUEST_ID,
    SERVER_FIELDS,
    Response,
    field_lines,
    head_bytes,
    request_id_field,
)
from .net.server import FinishedExchange
from .refusals import Refusals
from .routes.table import RoutingTable


@dataclass(eq=False)
class Dispatcher:
    """The request handler of :mod:`.net`: tensor routes, and FastAPI for all other paths."""

    framework: AsgiApplication
    table: RoutingTable
    memory: Memory
    gate: Gate
    refusals: Refusals
    cors: Cors | None = None
    #: Folders whose requests change something, which pages of other origins may not.
    changing: Iterable[str] = ()

    def __post_init__(self) -> None:
        self._tensor_routes = self.table.tensor_routes
        self._changing = tuple(f"{folder}/" for folder in self.changing)
        self.logs_access = self.gate.logs_access
        self._listed_origins = self.cors.origins if self.cors else frozenset()
        self._preallocated = {
            key: _serialized(response) for key, response in self.refusals.preallocated().items()
        }

    @property
    def traces(self) -> bool:
        """Whether spans are made, whose context is written into the heads."""
        return self.gate.begin_span is not None

    async def respond(self, request: Request) -> Response:
        """Return the response to a request; errors become refusals."""
        head = request.head
        request_id = request_id_field(head)
        if head.path.endswith("/") and head.method in SAFE_METHODS:
            self._strip_trailing_slash(head)
        span = None if self.gate.begin_span is None else self._begin_span(request)
        route = self._tensor_routes.get(head.path) if head.method == "POST" else None
        try:
            preflight = None
            if head.method == "OPTIONS" and self.cors is not None and head.fault is None:
                preflight = self.cors.preflight(head)
            request.key = self.gate.check(head, is_preflight=preflight is not None)
            if preflight is not None:
                response = preflight
            elif route is not None:
                response = await route(request, self.gate.metrics)
            else:
                if head.path.startswith(self._changing):
                    check_origin(head, self._listed_origins)
                job = Job(self.memory, request)
                response = await respond_by_asgi(self.framework, request, job, CREDENTIALS)
        except BaseException as error:
            is_gone = isinstance(error, (ClientDisconnected, MalformedRequest))
            # Every other error becomes a response, unless the drain timeout has passed.
            if is_gone or not isinstance(error, Exception):
                if span is not None:
                    span.end({}, type(error).__qualname__)
                raise
            response = self.refusals.response_to(
                head.path, error, traceparent_of(head), request_id[1].decode()
            )
        if route is None and all(name != CACHE_CONTROL for name, _ in response.headers):
            # Tensor routes need no field: caches do not store responses to POST by themselves
            # (RFC 9111, section 3).
            response.headers.append(NO_STORE)
        response.headers.append(request_id)
        if self.cors is not None:
            response.headers += self.cors.fields(head)
        if route is None or response.owner is None:
            response.is_uncounted = True
        if span is not None:
            _end_span(span, request, response)
        return response

    def _strip_trailing_slash(self, head: Head) -> None:
        """Remove a trailing slash, except from the paths of routes that end in one."""
        if head.path not in self.table.folders and not head.path.endswith("//"):
            head.path = head.path[:-1]

    def refuse(self, path: str, error: Exception, request: Request | None = None) -> Response:
        """Return the uncounted refusal for an error, in the form of the path.

        ``request`` is None if its head could not be parsed.
        """
        head = None if request is None else request.head
        response = self.refusals.response_to(path, error, traceparent_of(head))
        response.is_uncounted = True
        if self.cors is not None:
            response.headers += self.cors.fields(head)
        return response

    def preallocated_response(self, path: str, error: Exception) -> tuple[Response, bytes]:
        """Return an uncounted response that needs no memory, for an error, and its bytes."""
        form = self.refusals.form_of(path)
        found = self._preallocated.get((form, refusal_for(error).code))
        return found or self._preallocated[form, FAILED.code]

    def finished(self, exchange: FinishedExchange) -> None:
        """Log an exchange that is over, and count it unless a job has."""
        response = exchange.response
        with contextlib.suppress(MemoryError):
            outcome, sent = _outcome(exchange)
            if response is None or response.is_uncounted:
                # What has come of a head is no body.
                received = 0 if exchange.head is None else exchange.received
                self.gate.count(exchange.path, outcome, received, sent, exchange.seconds)
            if self.logs_access:
                headers = () if response is None else response.headers
                self.gate.log(
                    exchange.head,
                    exchange.path,
                    outcome,
                    received=exchange.received,
                    sent=sent,
                    seconds=exchange.seconds,
                    client=exchange.client,
                    key=exchange.key,
                    request_id=dict(headers).get(REQUEST_ID, b""),
                )

    def _begin_span(self, request: Request) -> Span:
        """Begin a span by OpenTelemetry's conventions for HTTP; it has no query and no key."""
        assert self.gate.begin_span is not None
        head, route = request.head, self.gate.route_of(request.head.path)
        method = head.method if head.method in METHODS else "_OTHER"
        attributes: dict[str, str | int] = {
            "http.request.method": method,
            "url.path": head.path,
            "url.scheme": request.scheme,
            "network.protocol.version": head.version,
        }
        if route != "other":
            attributes["http.route"] = route
        client = self.gate.client_of(head, request.client[0] if request.client else None)
        if client is not None:
            attributes["client.address"] = client
        name = method if route == "other" else f"{method} {route}"
        return self.gate.begin_span(head, name, attributes)

    async def serve_asgi(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond to a request of another ASGI server."""
        request = AsgiRequest(scope, receive)
        response = None
        try:
            answer = await self.respond(request)
            answer.headers += SERVER_FIELDS
            await send_response(answer, send, head_only=request.head.method == "HEAD")
            response = answer
        except ClientDisconnected:
            pass
        finally:
            client = request.client[0] if request.client else None
            self.finished(FinishedExchange.of(request, client, response))


def _outcome(exchange: FinishedExchange) -> tuple[Outcome, int]:
    """Status and code, and the length of the response's body as it was sent, in bytes."""
    head, response = exchange.head, exchange.response
    if response is None:
        return ABANDONED, 0
    sent = _sent_bytes(response, "" if head is None else head.method)
    return (str(response.status), response.code), sent


def _sent_bytes(response: Response, method: str) -> int:
    """The length of the body as it is sent, in bytes."""
    return 0 if method == "HEAD" else sum(map(len, response.parts))


def _serialized(response: Response) -> tuple[Response, bytes]:
    response.is_uncounted = True
    nbytes = sum(map(len, response.parts))
    head = head_bytes(response, nbytes, field_lines(SERVER_FIELDS), close=True)
    return response, b"".join((head, *response.parts))


def _end_span(span: Span, request: Request, response: Response) -> None:
    """End the span of a request, with its job if that is observed: when it has been sent."""
    attributes: dict[str, str | int] = {
        "http.response.status_code": response.status,
        "http.request.body.size": request.received,
        "http.response.body.size": _sent_bytes(response, request.head.method),
    }
    if response.code:
        attributes["tensor_round.code"] = response.code
    failure = (response.code or str(response.status)) if response.status >= 500 else ""
    job = response.owner
    # A job without an observer has no phases: it holds an answer of FastAPI.
    if isinstance(job, Job) and job.observer is not None:
        job.observer = span.observing(job.observer, ends=(attributes, failure))
    else:
        span.end(attributes, failure)
