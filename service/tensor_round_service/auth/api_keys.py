"""Authentication by API key, and the file of keys: one a line, with a label and an expiry date.

::

    # printf %s "$key" | sha256sum
    9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08  reports  2027-12-31
    60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752  robot

The file has digests only, so a copy of it grants no access.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import math
import re
import time
from collections.abc import Set
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path

from tensor_round.contract.errors import Unauthorized
from tensor_round.contract.wire import http_fields

from ..failures import CannotStart
from ..net.head import Head
from ..net.response import field_name
from ..watched_file import WatchedFile

_AUTHORIZATION = field_name("Authorization")
_API_KEY = field_name(http_fields.API_KEY)
#: The fields that carry a key; only the authenticator reads them.
CREDENTIALS = frozenset({_AUTHORIZATION, _API_KEY})
_SCHEME = b"bearer"
_HOW = "send an API key, as Authorization: Bearer <key> or as X-API-Key: <key>"

_DIGEST = re.compile(r"[0-9A-Fa-f]{64}", re.ASCII)
_LABEL_LENGTH = 64
_SECONDS_A_DAY = 86400

logger = logging.getLogger(__name__)


class KeyFileError(CannotStart):
    """The file of API keys is invalid; the message names the line, but never its content."""


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key in the file: SHA-256 digest, label, and expiry in Unix time."""

    digest: bytes
    label: str
    expires: float = math.inf

    def is_valid_at(self, moment: float) -> bool:
        """Whether the key has not expired at a Unix time. A date expires at its end in UTC."""
        return moment < self.expires


class KeyRing:
    """The keys of one file, which is read again when its content changes.

    :meth:`find` polls the file. Each request is compared with every key, so more keys than the file
    may have need another design.
    """

    def __init__(self, path: Path) -> None:
        """Read the file; raises :class:`KeyFileError`."""
        self._file = WatchedFile(path)
        try:
            self._keys = read_keys(self._file.content)
        except KeyFileError as error:
            raise KeyFileError(f"API keys: {path}: {error}") from None

    def find(self, secret: bytes) -> ApiKey | None:
        """The key of this secret; None if there is none or it has expired.

        Takes the same time for every secret.
        """
        if self._file.has_changed():
            self._apply()
        digest = hashlib.sha256(secret).digest()
        found = None
        for key in self._keys:
            if hmac.compare_digest(key.digest, digest):
                found = key
        return found if found is not None and found.is_valid_at(time.time()) else None

    @property
    def labels(self) -> Set[str]:
        """The labels of the keys."""
        return {key.label for key in self._keys}

    def reload(self) -> None:
        """Read the file now; an invalid file is logged and changes nothing."""
        self._file.read()
        self._apply()

    def _apply(self) -> None:
        """Use the content of the file; an invalid one is logged and changes nothing."""
        path = self._file.path
        try:
            self._keys = read_keys(self._file.content)
        except KeyFileError as error:
            logger.error("API keys: %s: %s; the previous keys stay in effect", path, error)
        else:
            logger.info("API keys: %d in %s", len(self._keys), path)


class Authenticator:
    """Accepts a request, by its head, if its path is in ``open_paths`` or its key is valid."""

    def __init__(self, keys: KeyRing, open_paths: Set[str]) -> None:
        self._keys = keys
        self._open_paths = open_paths

    def check(self, head: Head) -> str:
        """The label of the request's key; empty for an open path, whatever key it has.

        Raises :class:`Unauthorized` if the request is not allowed.
        """
        if head.path in self._open_paths:
            return ""
        values = head.values
        authorization, secret = values.get(_AUTHORIZATION), values.get(_API_KEY)
        if head.repeated & CREDENTIALS or (authorization is not None and secret is not None):
            raise Unauthorized("the request has more than one credential; " + _HOW)
        if authorization is not None:
            scheme, _, bearer = authorization.strip().partition(b" ")
            secret = bearer if scheme.lower() == _SCHEME else b""
        secret = (secret or b"").strip()
        if not secret:
            raise Unauthorized("the request has no API key; " + _HOW)
        # The response does not tell an unknown key from an expired one.
        key = self._keys.find(secret)
        if key is None:
            raise Unauthorized("the API key is not valid")
        return key.label


def read_keys(content: bytes | str) -> tuple[ApiKey, ...]:
    """Parse the content of a file; raises :class:`KeyFileError` for the first invalid line.

    The content of a file that cannot be read is the reason, as a string.
    """
    if isinstance(content, str):
        raise KeyFileError(content)
    try:
        text = content.decode()
    except UnicodeDecodeError:
        raise KeyFileError("is not UTF-8 text") from None
    lines: dict[bytes, int] = {}
    keys = []
    for number, line in enumerate(text.splitlines(), 1):
        fields = line.partition("#")[0].split()
        if not fields:
            continue
        key = _key(number, fields)
        if key.digest in lines:
            raise KeyFileError(f"line {number}: repeats the key of line {lines[key.digest]}")
        lines[key.digest] = number
        keys.append(key)
    return tuple(keys)


def _key(number: int, fields: list[str]) -> ApiKey:
    digest, *rest = fields
    if not _DIGEST.fullmatch(digest):
        raise KeyFileError(f"line {number}: does not begin with the 64 hex digits of a SHA-256")
    label = f"line {number}"
    # A label begins with a letter: otherwise a mistyped date would be read as a label.
    if rest and rest[0][0].isalpha():
        label = rest.pop(0)
        if len(label) > _LABEL_LENGTH or not label.isprintable():
            raise KeyFileError(f"line {number}: the label is too long or not printable")
    if not rest:
        return ApiKey(bytes.fromhex(digest), label)
    try:
        (expiry,) = rest
        last = date.fromisoformat(expiry)
    except ValueError:
        raise KeyFileError(
            f"line {number}: only an optional label, which begins with a letter, and an optional "
            "last day as YYYY-MM-DD may follow the digest"
        ) from None
    midnight = datetime(last.year, last.month, last.day, tzinfo=UTC)
    return ApiKey(bytes.fromhex(digest), label, midnight.timestamp() + _SECONDS_A_DAY)
