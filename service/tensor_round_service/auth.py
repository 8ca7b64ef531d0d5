"""Who may come in: API keys, asked for before anything of a request is read but its head.

Plain ASGI, as the application leads tensor requests past the framework's stack.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

from tensor_round.errors import Unauthorized

from .answers import Send, field_name, refusal_answer
from .api_keys import KeyRing
from .direct import Header, direct_exchange
from .hardening import NO_STORE
from .request_id import request_id_header

#: What needs no key: health, by its exact paths. All else does, be there something or not.
OPEN_PATHS = frozenset({"/livez", "/readyz", "/v2/health/live", "/v2/health/ready"})

_AUTHORIZATION = field_name("Authorization")
_API_KEY = field_name("X-API-Key")
#: The fields that a key may come in.
CREDENTIALS = frozenset({_AUTHORIZATION, _API_KEY})
_SCHEME = b"bearer"

_HOW = "send an API key, as Authorization: Bearer <key> or as X-API-Key: <key>"


class Door:
    """Lets a request in if its path is open or its key is on the ring."""

    def __init__(self, keys: KeyRing, open_paths: frozenset[str] = OPEN_PATHS) -> None:
        self._keys = keys
        self.open_paths = open_paths

    async def turns_away(self, scope: MutableMapping[str, Any], send: Send) -> bool:
        """Whether a request was refused, and answered.

        One that is let in goes on without its key, which then can show up nowhere.
        """
        if scope["path"] in self.open_paths:
            return False
        try:
            self._check(scope)
        except Unauthorized as refusal:
            await _refuse(scope, send, refusal)
            return True
        return False

    def _check(self, scope: MutableMapping[str, Any]) -> None:
        shown: list[Header] = []
        others: list[Header] = []
        for header in scope["headers"]:
            (shown if header[0] in CREDENTIALS else others).append(header)
        scope["headers"] = others
        if len(shown) > 1:
            raise Unauthorized("the request has more than one credential; " + _HOW)
        secret = _secret(*shown[0]) if shown else b""
        if not secret:
            raise Unauthorized("the request has no API key; " + _HOW)
        # Whether a key is unknown or has expired is nobody's business but its owner's.
        if self._keys.find(secret) is None:
            raise Unauthorized("the API key is not valid")


def _secret(name: bytes, value: bytes) -> bytes:
    """What the header says the key is; nothing if it is another scheme's credential."""
    if name == _API_KEY:
        return value.strip()
    scheme, _, secret = value.strip().partition(b" ")
    return secret.strip() if scheme.lower() == _SCHEME else b""


async def _refuse(scope: MutableMapping[str, Any], send: Send, refusal: Unauthorized) -> None:
    answer = refusal_answer(scope["path"], refusal)
    answer.headers += [request_id_header(scope), NO_STORE]
    # The direct way writes what it is given, and an answer to HEAD has no body.
    exchange = None if scope["method"] == "HEAD" else direct_exchange(scope)
    await answer.send(send, exchange)
