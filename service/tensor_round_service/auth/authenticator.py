"""Authentication by API key, from the request head alone."""

from __future__ import annotations

from collections.abc import Set

from tensor_round.contract.errors import Unauthorized
from tensor_round.contract.wire import native

from ..http1.head import RequestHead
from ..http1.response import field_name
from .api_keys import KeyRing

_AUTHORIZATION = field_name("Authorization")
_API_KEY = field_name(native.API_KEY)
#: The fields that carry a key; only the authenticator reads them.
CREDENTIALS = frozenset({_AUTHORIZATION, _API_KEY})
_SCHEME = b"bearer"

_HOW = "send an API key, as Authorization: Bearer <key> or as X-API-Key: <key>"


class Authenticator:
    """Accepts a request if its path is in ``open_paths`` or its key is valid."""

    def __init__(self, keys: KeyRing, open_paths: Set[str]) -> None:
        self._keys = keys
        self._open_paths = open_paths

    def check(self, head: RequestHead) -> None:
        """Raise :class:`Unauthorized` if the request is not allowed."""
        if head.path in self._open_paths:
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
        # The response does not tell an unknown key from an expired one.
        if self._keys.find(secret) is None:
            raise Unauthorized("the API key is not valid")
