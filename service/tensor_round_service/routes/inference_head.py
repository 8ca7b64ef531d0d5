"""What an inference request says in its headers."""

from __future__ import annotations

from functools import cached_property, lru_cache

from tensor_round.errors import Fault, InvalidDescriptor
from tensor_round.wire import native, oip, oip_request
from tensor_round.wire.accept import preferred_coding

from ..answers import field_name
from ..decoding import INFLATION
from ..encoding import CODINGS
from .request_head import Fields, RequestHead
from .tensor_route import Scope

HEADER_LENGTH = field_name(oip.HEADER_LENGTH)
_ACCEPT_ENCODING = field_name(native.ACCEPT_ENCODING)


class InferenceHead(RequestHead):
    """The headers of an inference request; get one from :func:`inference_head_of`."""

    def __init__(self, fields: Fields) -> None:
        super().__init__(fields)
        #: The Content-Encoding of the answer.
        self.coding = preferred_coding(self.text(_ACCEPT_ENCODING), CODINGS)

    @cached_property
    def json_length(self) -> int | None:
        """Bytes of the content that are its JSON; None is all, 0 is none of a raw tensor.

        Raises :class:`InvalidDescriptor` for what is no length, or beyond the content.
        """
        values = self.texts(HEADER_LENGTH)
        if not values:
            return None
        length = oip_request.read_header_length(", ".join(values))
        if self.content_length is not None and length > self.content_length:
            rule = f"is beyond the {self.content_length} bytes of the body"
            raise InvalidDescriptor.of([Fault((oip.HEADER_LENGTH,), rule)])
        return length

    @cached_property
    def json_most(self) -> int:
        """The most bytes that its JSON can have, before any of it is read."""
        if self.json_length is not None:
            return self.json_length
        if self.content_length is not None:
            return self.content_length
        packed = oip.MAX_HEAD_LENGTH if self.length is None else self.length
        return min(packed * INFLATION, oip.MAX_HEAD_LENGTH)

    @cached_property
    def binary_length(self) -> int | None:
        """Bytes of the content behind its JSON; None where nobody said."""
        return None if self.content_length is None else self.content_length - self.json_most


@lru_cache(maxsize=256)
def _remembered(fields: Fields) -> InferenceHead:
    return InferenceHead(fields)


def inference_head_of(scope: Scope) -> InferenceHead:
    """The head of a request; the latest ones are remembered, as many are alike."""
    return _remembered(tuple(scope["headers"]))
