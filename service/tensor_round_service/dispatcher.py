"""The entry point of all requests: checks host and credentials, then dispatches to a route."""

from __future__ import annotations

import contextlib
from time import perf_counter

from .access_log import Entry, log
from .auth.api_keys import CREDENTIALS, Authenticator
from .auth.origins import Cors, HostCheck, check_origin
from .content.sources import ClientDisconnected
from .engine.job import Job
from .engine.memory import Memory
from .failures import FAILED, NO_MEMORY, refusal_for
from .http1.asgi import (
    AsgiApplication,
    AsgiRequest,
    Receive,
    Scope,
    Send,
    respond_by_asgi,
    send_response,
)
from .http1.context import Exchange
from .http1.head import MalformedRequest, RequestHead, traceparent_of
from .http1.request import Request
from .http1.response import (
    CACHE_CONTROL,
    NO_STORE,
    REQUEST_ID,
    SERVER_FIELDS,
    Response,
    head_bytes,
    request_id_field,
)
from .metrics.recorder import ABANDONED, Metrics
from .refusals import is_v2, refusal_response, response_to
from .routes.table import Table

#: Methods without a body, for which a trailing slash of the path is ignored.
_WITHOUT_A_BODY = frozenset({"GET", "HEAD", "OPTIONS"})
#: One path of each API, for the preallocated responses.
_PATHS = ("/round", "/v2")


class Dispatcher:
    """The request handler of :mod:`.http1`: tensor routes, and FastAPI for all other paths."""

    def __init__(
        self,
        framework: AsgiApplication,
        table: Table,
        memory: Memory,
        check_host: HostCheck | None,
        authenticator: Authenticator | None,
        cors: Cors | None = None,
        metrics: Metrics | None = None,
        logs_access: bool = False,
    ) -> None:
        self._framework = framework
        self._tensor_routes = table.tensor_routes
        self._folders = table.folders
        self._memory = memory
        self._check_host = check_host
        self._authenticator = authenticator
        self._cors = cors
        self._metrics = metrics
        self.logs_access = logs_access
        self._listed_origins = cors.origins if cors else frozenset()
        self._preallocated = {
            (refusal.code, is_v2(path)): _serialized(refusal_response(path, refusal))
            for refusal in (NO_MEMORY, FAILED)
            for path in _PATHS
        }

    async def respond(self, request: Request) -> Response:
        """Return the response to a request; errors become refusals."""
        head = request.head
        request_id = request_id_field(head)
        if head.path.endswith("/") and head.method in _WITHOUT_A_BODY:
            self._strip_trailing_slash(head)
        route = self._tensor_routes.get(head.path) if head.method == "POST" else None
        try:
            if head.fault is not None:
                raise head.fault
            if self._check_host is not None:
                self._check_host(head.authority)
            preflight = None
            if head.method == "OPTIONS" and self._cors is not None:
                preflight = self._cors.preflight(head)
            if self._authenticator is not None and preflight is None:  # it may carry no key
                self._authenticator.check(head)
            if preflight is not None:
                response = preflight
            elif route is not None:
                response = await route(request)
            else:
                if is_v2(head.path):  # no other path changes anything
                    check_origin(head, self._listed_origins)
                job = Job(self._memory, request)
                response = await respond_by_asgi(self._framework, request, job, CREDENTIALS)
        except (ClientDisconnected, MalformedRequest):
            raise
        except Exception as error:  # every error becomes a response
            response = response_to(head.path, error, traceparent_of(head), request_id[1].decode())
        if route is None and all(name != CACHE_CONTROL for name, _ in response.headers):
            # Tensor routes need no field: caches do not store responses to POST by themselves
            # (RFC 9111, section 3).
            response.headers.append(NO_STORE)
        response.headers.append(request_id)
        if self._cors is not None:
            response.headers += self._cors.fields(head)
        if route is None or response.owner is None:
            self._count(head.path, response, request.received)
        return response

    def _strip_trailing_slash(self, head: RequestHead) -> None:
        """Remove a trailing slash, except from the paths of routes that end in one."""
        if head.path not in self._folders and not head.path.endswith("//"):
            head.path = head.path[:-1]

    def refuse(self, path: str, error: Exception, request: Request | None = None) -> Response:
        """Return the refusal for an error, in the format of the path's API.

        ``request`` is None if its head could not be parsed.
        """
        head, received = (None, 0) if request is None else (request.head, request.received)
        response = response_to(path, error, traceparent_of(head))
        self._count(path, response, received)
        if self._cors is not None:
            response.headers += self._cors.fields(head)
        return response

    def preallocated_response(self, path: str, error: Exception) -> tuple[Response, bytes]:
        """Return a response that needs no memory, for an error on that path, and its bytes."""
        code, of_v2 = refusal_for(error).code, is_v2(path)
        found = self._preallocated.get((code, of_v2)) or self._preallocated[FAILED.code, of_v2]
        with contextlib.suppress(MemoryError):
            self._count(path, found[0])
        return found

    def _count(self, path: str, response: Response, received: int = 0) -> None:
        """Count a response without a job."""
        if self._metrics is not None:
            sent = sum(map(len, response.parts))
            self._metrics.responded(path, response.status, response.code, received, sent)

    def abandoned(self, path: str, received: int) -> None:
        """Count a request whose caller has left before its response."""
        if self._metrics is not None:
            self._metrics.abandoned(path, received)

    def log(self, exchange: Exchange) -> None:
        """Log an exchange that is over."""
        with contextlib.suppress(MemoryError):
            log(_entry(exchange))

    async def serve_asgi(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond to a request of another ASGI server."""
        request = AsgiRequest(scope, receive)
        head, began = request.head, perf_counter()
        response = None
        try:
            answer = await self.respond(request)
            answer.headers += SERVER_FIELDS
            await send_response(answer, send, head_only=head.method == "HEAD")
            response = answer
        except ClientDisconnected:
            self.abandoned(head.path, request.received)
        finally:
            if self.logs_access:
                client = request.client[0] if request.client else None
                seconds = perf_counter() - began
                self.log(Exchange(head.path, head, client, request.received, response, seconds))


def _serialized(response: Response) -> tuple[Response, bytes]:
    nbytes = sum(map(len, response.parts))
    head = head_bytes(response, nbytes, b"", close=True)
    return response, b"".join((head, *response.parts))


def _entry(exchange: Exchange) -> Entry:
    """What the access log has of an exchange."""
    head, response = exchange.head, exchange.response
    (status, code), sent, request_id = ABANDONED, 0, b""
    if response is not None:
        status, code = str(response.status), response.code
        request_id = dict(response.headers).get(REQUEST_ID, b"")
        if head is None or head.method != "HEAD":
            sent = sum(map(len, response.parts))
    return Entry(
        None if head is None else head.method,
        exchange.path,
        status,
        code,
        exchange.received,
        sent,
        exchange.seconds,
        exchange.client,
        request_id.decode() or None,
        traceparent_of(head),
    )
