"""API keys and their digests, and whose a key is."""

from __future__ import annotations

import hashlib

from tensor_round_service.auth.api_keys import KeyRing


def digest(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


A, B = digest("a"), digest("b")


def who(ring: KeyRing, secret: str) -> str | None:
    found = ring.find(secret.encode())
    return None if found is None else found.label
