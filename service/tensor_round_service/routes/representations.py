"""The representations of a tensor in a request: one is chosen by the Content-Type."""

from __future__ import annotations

from collections.abc import Awaitable
from functools import lru_cache

from tensor_round.contract.errors import UnsupportedMediaType
from tensor_round.contract.quoting import not_accepted
from tensor_round.contract.wire import http_fields

from ..engine.engine import Engine
from ..engine.job import Job
from ..net.request import Request
from ..net.response import Response, field_name
from .json_document import JSONHandler
from .npy_file import NpyHandler
from .octets import OctetHandler
from .operation import TensorOperation
from .tensor_route import DESCRIPTOR, Handler

_CONTENT_TYPE = field_name(http_fields.CONTENT_TYPE)

#: What messages say of the representations.
_FORMS = (
    f"{http_fields.OCTET_STREAM} with the header {http_fields.OPERATOR_DESCRIPTOR}",
    *http_fields.TYPES[1:],
)

_CACHED_TYPES = 64


class Representations:
    """A handler for each representation of the tensor of an operation."""

    def __init__(self, operation: TensorOperation, engine: Engine) -> None:
        self._octets = OctetHandler(operation, engine)
        self._npy = NpyHandler(operation, engine)
        self._json = JSONHandler(operation, engine)
        # Refusals are not cached.
        self._select = lru_cache(_CACHED_TYPES)(self._handler_of)

    def handle(self, request: Request, job: Job) -> Awaitable[Response]:
        """Let the handler of the request's representation respond."""
        values = request.head.values
        return self._select(values.get(_CONTENT_TYPE, b""), DESCRIPTOR in values)(request, job)

    def _handler_of(self, content_type: bytes, has_descriptor: bool) -> Handler:
        """The handler of a Content-Type; raises :class:`UnsupportedMediaType`."""
        match http_fields.media_type(content_type.decode("latin-1")):
            case "" | http_fields.OCTET_STREAM:
                return self._octets.handle
            case http_fields.FORM if has_descriptor:
                return self._octets.handle
            case http_fields.JSON | http_fields.NPY as other if has_descriptor:
                raise UnsupportedMediaType(
                    f"with the header {http_fields.OPERATOR_DESCRIPTOR}, Content-Type must be "
                    f"{http_fields.OCTET_STREAM}, got {other}"
                )
            case http_fields.JSON:
                return self._json.handle
            case http_fields.NPY:
                return self._npy.handle
        got = content_type.decode("latin-1")
        raise UnsupportedMediaType(
            f"Content-Type: {not_accepted(got, http_fields.TYPES, listed=_FORMS)}"
        )
