"""What a request on the native face says before its body."""

from __future__ import annotations

from functools import cached_property, lru_cache
from urllib.parse import parse_qsl

from tensor_round import operators
from tensor_round.call import RoundCall
from tensor_round.errors import (
    DuplicateDescriptor,
    Fault,
    HeadersTooLarge,
    InvalidDescriptor,
    MissingDescriptor,
    PayloadSizeMismatch,
)
from tensor_round.wire import native

from ..answers import field_name
from .request_head import Fields, RequestHead
from .tensor_route import Scope

_DESCRIPTOR = field_name(native.OPERATOR_DESCRIPTOR)
_CONTENT_TYPE = field_name(native.CONTENT_TYPE)
_WANT_CONTENT_DIGEST = field_name(native.WANT_CONTENT_DIGEST)


class Head(RequestHead):
    """The headers and the query of a request on the native face.

    Heads repeat, as whoever sends tensors sends many alike: get one from
    :func:`head_of`, which remembers the latest.
    """

    def __init__(self, fields: Fields, query: bytes) -> None:
        super().__init__(fields)
        self._query = query
        self.media_type = native.media_type(self.text(_CONTENT_TYPE))
        #: Whether the answer shall carry its SHA-256.
        self.wants_digest = native.wants_digest(self.texts(_WANT_CONTENT_DIGEST))

    @cached_property
    def call(self) -> RoundCall:
        """What the descriptor asks for."""
        self.query()
        return operators.resolve_json(self._descriptor())

    @property
    def has_descriptor(self) -> bool:
        """Whether an operator descriptor came as a header."""
        return _DESCRIPTOR in self._fields

    def _descriptor(self) -> bytes:
        descriptors = self._fields.get(_DESCRIPTOR, [])
        if not descriptors:
            raise MissingDescriptor(
                f"the header {native.OPERATOR_DESCRIPTOR} must carry the operator, as JSON; "
                "GET /operators lists what it can say"
            )
        if len(descriptors) > 1:
            raise DuplicateDescriptor(
                f"the header {native.OPERATOR_DESCRIPTOR} came {len(descriptors)} times"
            )
        if len(descriptors[0]) > native.MAX_DESCRIPTOR_LENGTH:
            raise HeadersTooLarge(
                f"the header {native.OPERATOR_DESCRIPTOR} has more than "
                f"{native.MAX_DESCRIPTOR_LENGTH} bytes"
            )
        return descriptors[0]

    def query(self, *known: str) -> dict[str, str]:
        """The query's parameters; an unknown one, or one twice, would be lost and is refused."""
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

    def check_length(self, *lawful: int) -> None:
        """Refuse a declared length that cannot be right, before the body is read."""
        if self.content_length is not None:
            check_payload(self.content_length, *lawful)


#: Heads that are remembered; as the server bounds a head, this bounds the memory they take.
REMEMBERED_HEADS = 256

_remembered = lru_cache(REMEMBERED_HEADS)(Head)


def head_of(scope: Scope) -> Head:
    """The head of a request."""
    return _remembered(tuple(scope["headers"]), scope["query_string"])


def check_payload(got: int, *lawful: int) -> None:
    """Refuse a payload of any length but the lawful ones."""
    if got not in lawful:
        raise PayloadSizeMismatch(
            f"the payload must have {' or '.join(map(str, sorted(set(lawful))))} bytes "
            f"for this descriptor, got {got}"
        )
