"""What a request on the native face says before its body."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl

from tensor_round.errors import (
    DuplicateDescriptor,
    Fault,
    HeadersTooLarge,
    InvalidDescriptor,
    MissingDescriptor,
    PayloadSizeMismatch,
)
from tensor_round.wire import native

from ..decoding import decoder_for
from ..receive import Body, Receive

#: The longest descriptor that is read: a rank-32 one with every field takes under 2 KiB.
DESCRIPTOR_LIMIT = 16 << 10


class Head:
    """The headers and the query of one request, read once."""

    def __init__(self, scope: Mapping[str, Any]) -> None:
        self._fields: dict[bytes, bytes] = {}
        self._descriptors: list[bytes] = []
        for name, value in scope["headers"]:
            if name == native.OPERATOR_DESCRIPTOR:
                self._descriptors.append(value)
            else:
                # Lists may come as several lines (RFC 9110, 5.3).
                known = self._fields.get(name)
                self._fields[name] = value if known is None else known + b", " + value
        self._query: bytes = scope["query_string"]
        length = self._fields.get(b"content-length")
        #: Bytes of the body on the wire; None where it comes chunked.
        self.length = int(length) if length is not None else None
        self.encoding = self._fields.get(b"content-encoding")
        self.media_type = native.media_type(self._fields.get(b"content-type"))
        self.wants_digest = native.wants_sha256(self._fields.get(native.WANT_CONTENT_DIGEST))

    @property
    def has_descriptor(self) -> bool:
        """Whether an operator descriptor came as a header."""
        return bool(self._descriptors)

    def descriptor(self) -> bytes:
        """The one operator descriptor."""
        if not self._descriptors:
            raise MissingDescriptor(
                "the header Operator-Descriptor must carry the operator, as JSON; "
                "GET /operators lists what it can say"
            )
        if len(self._descriptors) > 1:
            raise DuplicateDescriptor("the header Operator-Descriptor came more than once")
        (descriptor,) = self._descriptors
        if len(descriptor) > DESCRIPTOR_LIMIT:
            raise HeadersTooLarge(f"Operator-Descriptor has more than {DESCRIPTOR_LIMIT} bytes")
        return descriptor

    def query(self, *known: str) -> dict[str, str]:
        """The query's parameters; any other, or one twice, would be silently lost and is refused."""
        found: dict[str, str] = {}
        for name, value in parse_qsl(self._query.decode("latin-1"), keep_blank_values=True):
            if name not in known:
                takes = " and ".join(known) if known else "none"
                fault = Fault(("query", name[:40]), f"unknown parameter; this form takes {takes}")
                raise InvalidDescriptor.of([fault])
            if name in found:
                raise InvalidDescriptor.of([Fault(("query", name), "given more than once")])
            found[name] = value
        return found

    def body(self, receive: Receive) -> Body:
        """The body, as its headers say it is encoded and digested."""
        return Body(
            receive,
            decoder_for(self.encoding),
            native.sha256_of(self._fields.get(native.CONTENT_DIGEST)),
        )

    def check_length(self, *lawful: int) -> None:
        """Refuse a declared length that cannot be right, before the body is read."""
        if self.length is None or self.length in lawful or decoder_for(self.encoding) is not None:
            return
        check_payload(self.length, *lawful)


def check_payload(got: int, *lawful: int) -> None:
    """Refuse a payload of any length but the lawful ones."""
    if got not in lawful:
        raise PayloadSizeMismatch(
            f"the payload must have {' or '.join(map(str, sorted(set(lawful))))} bytes "
            f"for this descriptor, got {got}"
        )
