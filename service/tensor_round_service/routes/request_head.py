"""What a request says before its body, on whichever face."""

from __future__ import annotations

from functools import cached_property

from tensor_round.wire import native

from ..answers import field_name
from ..decoding import decoder_for, is_encoded
from ..direct import direct_exchange
from ..receive import Body, Receive
from .tensor_route import Scope

_CONTENT_LENGTH = field_name(native.CONTENT_LENGTH)
_CONTENT_ENCODING = field_name(native.CONTENT_ENCODING)
_CONTENT_DIGEST = field_name(native.CONTENT_DIGEST)

Fields = tuple[tuple[bytes, bytes], ...]


class RequestHead:
    """The headers of a request; what they ask for is worked out once."""

    def __init__(self, fields: Fields) -> None:
        self._fields: dict[bytes, list[bytes]] = {}
        for name, value in fields:
            self._fields.setdefault(name, []).append(value)
        length = self._fields.get(_CONTENT_LENGTH)
        #: Bytes of the body on the wire; None where it comes chunked.
        self.length = None if length is None else int(length[0])
        self.encoding = self.text(_CONTENT_ENCODING)
        #: Bytes of the content; None where nobody said, as of a chunked or compressed body.
        self.content_length = None if is_encoded(self.encoding) else self.length

    def texts(self, name: bytes) -> list[str]:
        """The values of a header, one a line it came on."""
        return [value.decode("latin-1") for value in self._fields.get(name, ())]

    def text(self, name: bytes) -> str:
        """The value of a header, empty without it."""
        # A list may come as several lines (RFC 9110, section 5.3).
        return ", ".join(self.texts(name))

    @cached_property
    def sha256(self) -> bytes | None:
        """What the sender says the digest of the body is; None if it does not."""
        return native.parse_content_digest(self.texts(_CONTENT_DIGEST))

    def body(self, scope: Scope, receive: Receive) -> Body:
        """The body of one request with this head."""
        return Body(receive, decoder_for(self.encoding), self.sha256, direct_exchange(scope))
