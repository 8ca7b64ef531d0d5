"""API keys: asked for before anything of a request is read but its head."""

from __future__ import annotations

from tensor_round.errors import Unauthorized
from tensor_round.wire import native

from ..http1.head import RequestHead
from ..http1.response import field_name
from ..routes import docs
from .api_keys import KeyRing

#: What needs no key, by its exact paths: health, and the pages that say how to call the service.
#: All else does, be there something or not.
OPEN_PATHS = frozenset(
    {
        *("/livez", "/readyz", "/v2/health/live", "/v2/health/ready"),
        *("/", "/openapi.json", *docs.PATHS),
    }
)

_AUTHORIZATION = field_name("Authorization")
_API_KEY = field_name(native.API_KEY)
#: The fields that a key may come in; nobody but the authenticator sees them.
CREDENTIALS = frozenset({_AUTHORIZATION, _API_KEY})
_SCHEME = b"bearer"

_HOW = "send an API key, as Authorization: Bearer <key> or as X-API-Key: <key>"


class Authenticator:
    """Lets a request in if its path is open or its key is on the ring."""

    def __init__(self, keys: KeyRing) -> None:
        self._keys = keys

    def check(self, head: RequestHead) -> None:
        """Return if the request may come in; else raise :class:`Unauthorized`."""
        if head.path in OPEN_PATHS:
            return
        values = head.values
        authorization, secret = values.get(_AUTHORIZATION), values.get(_API_KEY)
        if head.repeated & CREDENTIALS or (authorization is not None and secret is not None):
            raise Unauthorized("the request has more than one credential; " + _HOW)
        if authorization is not None:
            scheme, _, key = authorization.strip().partition(b" ")
            secret = key if scheme.lower() == _SCHEME else b""
        secret = (secret or b"").strip()
        if not secret:
            raise Unauthorized("the request has no API key; " + _HOW)
        # Whether a key is unknown or has expired is nobody's business but its owner's.
        if self._keys.find(secret) is None:
            raise Unauthorized("the API key is not valid")
