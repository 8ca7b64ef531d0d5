"""The service's refusals: one class for each ``code``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .base import Fault, TensorRoundError


class RequestRefused(TensorRoundError):
    """The service said no. ``status`` is HTTP's, ``code`` names the rule."""

    status: int = 400
    code: str = ""
    title: str = "The request was refused"

    def __init__(
        self,
        detail: str,
        *,
        faults: Sequence[Fault] = (),
        retry_after: float | None = None,
    ) -> None:
        super().__init__(detail)
        self.faults = tuple(faults)
        #: Seconds after which another try makes sense; None where it does not.
        self.retry_after = retry_after

    def extensions(self) -> dict[str, Any]:
        """Members of the problem document beyond the common ones."""
        return {}


class MissingDescriptor(RequestRefused):
    """No operator descriptor came with the tensor."""

    code = "missing_descriptor"
    title = "The operator descriptor is missing"


class DuplicateDescriptor(RequestRefused):
    """More than one operator descriptor came with the tensor."""

    code = "duplicate_descriptor"
    title = "More than one operator descriptor"


class MalformedJSON(RequestRefused):
    """The text is not JSON, nests too deep, has too many parts, or names a key twice."""

    code = "malformed_json"
    title = "The JSON is malformed"


class PayloadSizeMismatch(RequestRefused):
    """The body has fewer or more bytes (or elements) than the descriptor says."""

    code = "payload_size_mismatch"
    title = "The payload's size is not the descriptor's"


class MalformedNpy(RequestRefused):
    """The body is not a .npy file as NumPy writes them."""

    code = "malformed_npy"
    title = "The .npy file is malformed"


class MalformedEncoding(RequestRefused):
    """The body does not decode as its Content-Encoding says, or the query is not UTF-8."""

    code = "malformed_encoding"
    title = "The encoding is malformed"


class DigestMismatch(RequestRefused):
    """The body's digest is not the one its Content-Digest states (RFC 9530)."""

    code = "digest_mismatch"
    title = "The content digest does not match"


class Unauthorized(RequestRefused):
    """No valid API key came with the request."""

    status = 401
    code = "unauthorized"
    title = "An API key is needed"


class NotFound(RequestRefused):
    """There is nothing at this path."""

    status = 404
    code = "not_found"
    title = "Not found"


class MethodNotAllowed(RequestRefused):
    """The path exists, but not for this method."""

    status = 405
    code = "method_not_allowed"
    title = "Method not allowed"

    def __init__(self, detail: str, *, allow: str = "", **common: Any) -> None:
        super().__init__(detail, **common)
        #: The value of the ``Allow`` header.
        self.allow = allow


class ReceiveTimeout(RequestRefused):
    """The request came too slowly."""

    status = 408
    code = "receive_timeout"
    title = "The request came too slowly"
    transient = True


class TensorTooLarge(RequestRefused):
    """The tensor, in or out, is over the service's limit."""

    status = 413
    code = "tensor_too_large"
    title = "The tensor is too large"

    def __init__(
        self, detail: str, *, limit_bytes: int = 0, got_bytes: int | None = None, **common: Any
    ) -> None:
        super().__init__(detail, **common)
        self.limit_bytes = limit_bytes
        #: The declared size; None where the sender declared none.
        self.got_bytes = got_bytes

    def extensions(self) -> dict[str, Any]:
        """The limit and what was declared, both in bytes."""
        return {"limit_bytes": self.limit_bytes, "got_bytes": self.got_bytes}


class UnsupportedMediaType(RequestRefused):
    """The Content-Type is none of the three faces', or needs a dtype that was not given."""

    status = 415
    code = "unsupported_media_type"
    title = "Unsupported media type"


class UnsupportedEncoding(RequestRefused):
    """The Content-Encoding is none of identity, gzip and deflate."""

    status = 415
    code = "unsupported_encoding"
    title = "Unsupported content encoding"


class InvalidDescriptor(RequestRefused):
    """The descriptor, or what is beside it, breaks a rule; ``faults`` says where and which."""

    status = 422
    code = "invalid_descriptor"
    title = "The descriptor or its data is invalid"

    @classmethod
    def of(cls, faults: Sequence[Fault]) -> InvalidDescriptor:
        """The refusal whose detail is the faults, in one line."""
        return cls("; ".join(map(str, faults)), faults=faults)


class MisdirectedHost(RequestRefused):
    """The request is for a host that this service is not."""

    status = 421
    code = "misdirected_host"
    title = "The request is for another host"


class HeadersTooLarge(RequestRefused):
    """A header, or all of them together, is over the limit."""

    status = 431
    code = "headers_too_large"
    title = "The headers are too large"


class ForeignOrigin(RequestRefused):
    """A page of another origin asked for a change.

    The Open Inference Protocol alone says so, without a code.
    """

    status = 403
    title = "The request comes from another origin"


class InternalError(RequestRefused):
    """A fault of the service's own; never the answer to what a caller sent."""

    status = 500
    code = "internal_error"
    title = "The service failed"


class NotOffered(RequestRefused):
    """The service is not set up to do this.

    The Open Inference Protocol alone says so, without a code.
    """

    status = 501
    title = "Not offered here"


class Overloaded(RequestRefused):
    """There is no room for this tensor now; nothing of it was kept."""

    status = 503
    code = "overloaded"
    title = "The service is at capacity"
    transient = True


class Draining(RequestRefused):
    """The service is shutting down; another instance will answer."""

    status = 503
    code = "draining"
    title = "The service is shutting down"
    transient = True


class DeviceOutOfMemory(RequestRefused):
    """The device has no memory for this tensor now."""

    status = 503
    code = "device_out_of_memory"
    title = "The device is out of memory"
    transient = True


class BackendFailed(RequestRefused):
    """The compute backend failed on a sound request."""

    status = 503
    code = "backend_failed"
    title = "The compute backend failed"
    transient = True


class UnknownRefusal(RequestRefused):
    """A refusal with a code this version does not know; status and code are the answer's."""

    def __init__(self, detail: str, *, status: int = 0, code: str = "", **common: Any) -> None:
        super().__init__(detail, **common)
        # The answer's own, over the class's: the one class that is not one code.
        self.status = status
        self.code = code
        self.transient = status in (429, 502, 503, 504)


REFUSALS: dict[str, type[RequestRefused]] = {
    kind.code: kind for kind in RequestRefused.__subclasses__() if kind.code
}
