"""API keys and their digests, and whose a key is."""

from __future__ import annotations

import hashlib
from pathlib import Path

from tensor_round_service.auth.api_keys import KeyRing


def digest(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


def needing(folder: Path, *keys: str) -> tuple[str, str]:
    """The option of a service that needs one of these keys, whose digests lie in this folder."""
    path = folder / "keys"
    path.write_text("".join(f"{digest(key)}\n" for key in keys))
    return "--api-keys-file", str(path)


A, B = digest("a"), digest("b")


def who(ring: KeyRing, secret: str) -> str | None:
    found = ring.find(secret.encode())
    return None if found is None else found.label
