"""What every request comes through first: which host it is for, who sent it, where it goes."""

from __future__ import annotations

from collections.abc import Mapping

from .auth.authenticator import CREDENTIALS, Authenticator
from .auth.cors import Cors
from .auth.hosts import HostCheck, check_origin
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
from .http1.head import MalformedRequest, RequestHead
from .http1.request import ClientDisconnected, Request
from .http1.request_id import request_id_field
from .http1.response import Response, head_bytes
from .http1.security_headers import CACHE_CONTROL, NO_STORE, SERVER_FIELDS
from .refusals import is_v2, refusal_response
from .routes.docs import PAGE_WITH_SLASH
from .routes.tensor_route import TensorRoute

#: Methods of requests that lose nothing where another path is taken for theirs.
_WITHOUT_A_BODY = frozenset({"GET", "HEAD", "OPTIONS"})
#: A path of each API, for what is made beforehand.
_PATHS = ("/round", "/v2")


class Front:
    """The application of :mod:`.http1`: tensor routes, and a framework for all the rest."""

    def __init__(
        self,
        framework: AsgiApplication,
        tensor_routes: Mapping[str, TensorRoute],
        check_host: HostCheck | None,
        authenticator: Authenticator | None,
        cors: Cors | None = None,
    ) -> None:
        self._framework = framework
        self._tensor_routes = tensor_routes
        self._check_host = check_host
        self._authenticator = authenticator
        self._cors = cors
        self._listed_origins = cors.origins if cors else frozenset()
        self._last_resorts = {
            (refusal.code, is_v2(path)): _whole(refusal_response(path, refusal))
            for refusal in (NO_MEMORY, FAILED)
            for path in _PATHS
        }

    async def respond(self, request: Request) -> Response:
        """The response to a request, a refusal included."""
        head = request.head
        if head.path.endswith("/") and head.method in _WITHOUT_A_BODY:
            _take_off_slash(head)
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
                if is_v2(head.path):  # nothing else has anything to change
                    check_origin(head, self._listed_origins)
                response = await respond_by_asgi(self._framework, request, CREDENTIALS)
        except (ClientDisconnected, MalformedRequest):
            raise
        except Exception as error:  # whatever it is, its sender gets a response
            response = refusal_response(head.path, refusal_for(error))
        if route is None and all(name != CACHE_CONTROL for name, _ in response.headers):
            # No cache may keep what a POST was answered that does not ask for it (RFC 9111, 3).
            response.headers.append(NO_STORE)
        response.headers.append(request_id_field(head))
        if self._cors is not None:
            response.headers += self._cors.fields(head)
        return response

    def refuse(self, path: str, error: Exception, head: RequestHead | None = None) -> Response:
        """The response that tells of an error, in the form of that path.

        ``head`` is that of the request, where it has become known.
        """
        response = refusal_response(path, refusal_for(error))
        if self._cors is not None:
            response.headers += self._cors.fields(head)
        return response

    def last_resort(self, path: str, error: Exception) -> bytes:
        """A whole response made beforehand, for when no other can be made."""
        failure, of_v2 = refusal_for(error), is_v2(path)
        whole = self._last_resorts.get((failure.code, of_v2))
        return whole or self._last_resorts[FAILED.code, of_v2]

    async def serve_asgi(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond through another server than ours."""
        request = AsgiRequest(scope, receive)
        try:
            response = await self.respond(request)
        except ClientDisconnected:
            return
        response.headers += SERVER_FIELDS
        await send_response(response, send, head_only=request.head.method == "HEAD")


def _take_off_slash(head: RequestHead) -> None:
    """Answer to a path with a slash too many as without it, but to a page of relative links."""
    if head.path not in ("/", PAGE_WITH_SLASH) and not head.path.endswith("//"):
        head.path = head.path[:-1]


def _whole(response: Response) -> bytes:
    nbytes = sum(map(len, response.parts))
    return b"".join((head_bytes(response, nbytes, b"", close=True), *response.parts))
