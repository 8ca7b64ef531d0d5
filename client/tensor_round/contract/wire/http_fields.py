"""The HTTP fields of ``/round``: their names, and parsers of their values.

Digest fields follow RFC 9530. They are parsed here, and compared where the body is.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

from ..errors import DigestMismatch, InvalidDescriptor, MalformedJSON
from ..layout import Layout
from . import strictjson

OPERATOR_DESCRIPTOR = "Operator-Descriptor"
OUTPUT_DESCRIPTOR = "Output-Descriptor"
EXECUTION_BACKEND = "Execution-Backend"
SERVER_TIMING = "Server-Timing"
REQUEST_ID = "X-Request-ID"
API_KEY = "X-API-Key"
CONTENT_DIGEST = "Content-Digest"
WANT_CONTENT_DIGEST = "Want-Content-Digest"
CONTENT_TYPE = "Content-Type"
CONTENT_ENCODING = "Content-Encoding"
ACCEPT_ENCODING = "Accept-Encoding"
RETRY_AFTER = "Retry-After"

OCTET_STREAM = "application/octet-stream"
JSON = "application/json"
NPY = "application/x-npy"
#: The representations of a tensor.
TYPES = (OCTET_STREAM, JSON, NPY)
PROBLEM_JSON = "application/problem+json"
#: curl's default for a body.
FORM = "application/x-www-form-urlencoded"

#: The digests of RFC 9530 that are not deprecated; of equal weights the first is preferred.
ALGORITHMS = {"sha-256": hashlib.sha256, "sha-512": hashlib.sha512}
#: The longest operator descriptor, in bytes.
MAX_DESCRIPTOR_LENGTH = 16 << 10
#: The longest JSON request, in bytes.
MAX_JSON_LENGTH = 16 << 20
#: Object members in a JSON request: as many as fit into a descriptor.
MAX_JSON_MEMBERS = MAX_DESCRIPTOR_LENGTH // 4
#: The deepest nesting of a JSON request: the document, and arrays of the highest rank.
MAX_JSON_DEPTH = 2 + 64

#: Request ids that are repeated in responses and logs: no spaces, no line ends.
SANE_REQUEST_ID = re.compile(rb"[A-Za-z0-9._~:@/+=-]{1,128}")


def media_type(content_type: str) -> str:
    """The media type of a Content-Type, in lower case and without its parameters."""
    return content_type.partition(";")[0].strip(" \t").lower()


def content_digest(algorithm: str, digest: bytes) -> str:
    """The Content-Digest that states a digest."""
    return f"{algorithm}=:{base64.b64encode(digest).decode('ascii')}:"


def parse_content_digest(values: Iterable[str]) -> dict[str, bytes]:
    """The digests in Content-Digest fields, by :data:`ALGORITHMS`.

    Other algorithms are ignored. The last of several digests of one counts, as in any dictionary
    of structured fields. Raises :class:`DigestMismatch` for one of another length, or that is not
    in base64 between colons.
    """
    return {key: _digest(key, value) for key, value in _members(values) if key in ALGORITHMS}


def wanted_digest(values: Iterable[str]) -> str | None:
    """The algorithm that Want-Content-Digest fields prefer, by weights of 1 to 10."""
    weights = {key: _WEIGHTS.get(value, 0) for key, value in _members(values)}
    best = max(ALGORITHMS, key=lambda name: weights.get(name, 0))
    return best if weights.get(best) else None


def output_descriptor(layout: Layout) -> bytes:
    """The value of Output-Descriptor for a response of this layout."""
    return strictjson.dumps(layout.describe())


@lru_cache(maxsize=1024)
def describes(value: str, layout: Layout) -> bool:
    """Whether an Output-Descriptor, in any spelling of its JSON, is that of a layout.

    Strides of dimensions of size 1, which have no effect, may differ.
    """
    try:
        members = strictjson.loads(value.encode(), max_depth=2)
        strides = members.get("strides") if isinstance(members, dict) else None
        if not isinstance(strides, list) or any(type(step) is not int for step in strides):
            return False
        Layout.of(layout.dtype, layout.shape, strides, layout.byte_length)
    except (MalformedJSON, InvalidDescriptor):
        return False
    wanted = {**layout.describe(), "strides": strides}
    if members.keys() != wanted.keys() or not layout.lies_like(strides):
        return False
    # As text: 8.0 and true equal 8 and 1, but are no sizes.
    return strictjson.dumps({key: members[key] for key in wanted}) == strictjson.dumps(wanted)


_WEIGHTS = {str(weight): weight for weight in range(1, 11)}


def _members(values: Iterable[str]) -> Iterator[tuple[str, str]]:
    """The members of a dictionary of structured fields (RFC 9651), without their parameters.

    Values are split at commas and semicolons, which no digest and no weight contains.
    """
    for value in values:
        for member in value.split(","):
            key, _, item = member.strip(" \t").partition("=")
            yield key.lower(), item.partition(";")[0].rstrip(" \t")


def _digest(algorithm: str, item: str) -> bytes:
    size = ALGORITHMS[algorithm]().digest_size
    if item[:1] == item[-1:] == ":":
        try:
            digest = base64.b64decode(item[1:-1], validate=True)
        except (binascii.Error, ValueError):
            digest = b""
        if len(digest) == size:
            return digest
    raise DigestMismatch(
        f"the {algorithm} of Content-Digest is not {size} bytes in base64 between colons"
    )
