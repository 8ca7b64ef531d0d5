"""The error tree, shared by the service and the client.

::

    TensorRoundError
     +- RequestRefused             the service refused the request; has ``status`` and ``code``
     |   +- MissingDescriptor, DuplicateDescriptor, MalformedJSON, ...  (one class for each code)
     |   +- UnknownRefusal         a status and code that this version does not know
     +- ConnectionFailed           the service could not be reached, or closed the connection
     +- DeadlineExceeded           the call's total deadline passed
     +- ProtocolViolation          a response that no correct service sends
     +- CannotVerify               a runtime could not be judged (``conformance``)
     +- InvalidArgument            the client was called with a wrong argument
         +- InvalidArgumentType    an argument of the wrong type

The service raises a class and writes it as problem+json, or as the Open Inference Protocol's
``{"error"}``. The client raises the class of the ``code`` in the response.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from .quoting import one_line, printable


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault in a request: ``loc`` is its path of keys and indices, ``msg`` the broken rule."""

    loc: tuple[str | int, ...]
    msg: str

    def __str__(self) -> str:
        return f"{'.'.join(map(str, self.loc))}: {self.msg}" if self.loc else self.msg


class TensorRoundError(Exception):
    """The base of all errors of this package."""

    #: Whether the same request may succeed a little later.
    transient: bool = False

    #: Whether the response does not look like one of a tensor-round service.
    is_foreign: bool = False

    #: Whether no service is behind the address now, as while it is replaced: the connection is
    #: refused, or a gateway says so.
    is_unavailable: bool = False

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail
        #: The X-Request-ID of the failed request; None if none was made.
        self.request_id: str | None = None

    def restate(self, detail: str) -> None:
        """Replace the detail by a better one, from a caller that knows more."""
        self.detail = detail
        self.args = (detail,)


class ConnectionFailed(TensorRoundError):
    """The service could not be reached, or the connection broke before the response's end."""

    transient = True
    #: Whether a connection was made.
    is_connected: bool = True


class DeadlineExceeded(TensorRoundError):
    """The call's total deadline passed before the response was complete."""


class ProtocolViolation(TensorRoundError):
    """The server or a proxy sent a response that no correct service sends."""


class CannotVerify(TensorRoundError):
    """There is no verdict: the runtime is missing, failed, or returned a value of a wrong form."""

    def __init__(self, detail: str, reason: str | None = None) -> None:
        super().__init__(one_line(detail))
        #: The runtime's own error text; the detail if it gave none.
        self.reason = self.detail if reason is None else one_line(reason)


class InvalidArgument(TensorRoundError, ValueError):
    """An argument is wrong: ``x`` is not an array, for example, or ``out`` does not fit."""


class InvalidArgumentType(InvalidArgument, TypeError):
    """An argument has the wrong type, as in ``timeout="5"``, or is not an array."""


class RequestRefused(TensorRoundError):
    """The service refused the request. ``status`` is HTTP's; ``code`` names the reason."""

    status: int = 400
    code: str = ""
    title: str = "The request was refused"
    #: Further integers in the problem document.
    _members: ClassVar[tuple[str, ...]] = ()

    def __init__(
        self,
        detail: str,
        *,
        faults: Sequence[Fault] = (),
        retry_after: float | None = None,
    ) -> None:
        super().__init__(detail)
        self.faults = tuple(faults)
        #: Seconds to wait before another try; None if the service stated none.
        self.retry_after = retry_after

    def extensions(self) -> dict[str, Any]:
        """Further members of the problem document."""
        return {name: getattr(self, name) for name in self._members}


class MissingDescriptor(RequestRefused):
    """The request has no operator descriptor."""

    code = "missing_descriptor"
    title = "The operator descriptor is missing"


class DuplicateDescriptor(RequestRefused):
    """The request has more than one operator descriptor."""

    code = "duplicate_descriptor"
    title = "More than one operator descriptor"


class MalformedJSON(RequestRefused):
    """The text is not JSON, nests too deep, has too many values, or names a key twice."""

    code = "malformed_json"
    title = "The JSON is malformed"


class PayloadSizeMismatch(RequestRefused):
    """The body has fewer or more bytes (or elements) than the descriptor states."""

    code = "payload_size_mismatch"
    title = "The payload's size is not the descriptor's"


class MalformedNpy(RequestRefused):
    """The body is not a .npy file as NumPy writes them."""

    code = "malformed_npy"
    title = "The .npy file is malformed"


class MalformedEncoding(RequestRefused):
    """The body cannot be decoded by its Content-Encoding, or the query is not UTF-8."""

    code = "malformed_encoding"
    title = "The encoding is malformed"


class DigestMismatch(RequestRefused):
    """The body does not match its Content-Digest (RFC 9530)."""

    code = "digest_mismatch"
    title = "The content digest does not match"


class InvalidHost(RequestRefused):
    """The Host is not a host name or an IP address, with a port if given."""

    code = "invalid_host"
    title = "The Host is invalid"


class Unauthorized(RequestRefused):
    """The request has no valid API key."""

    status = 401
    code = "unauthorized"
    title = "An API key is needed"


class NotFound(RequestRefused):
    """No resource has this path."""

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
    """The request was received too slowly."""

    status = 408
    code = "receive_timeout"
    title = "The request came too slowly"
    transient = True


class TensorTooLarge(RequestRefused):
    """The input or the output tensor is over the service's limit."""

    status = 413
    code = "tensor_too_large"
    title = "The tensor is too large"
    _members = ("limit_bytes", "got_bytes")

    def __init__(
        self, detail: str, *, limit_bytes: int = 0, got_bytes: int | None = None, **common: Any
    ) -> None:
        super().__init__(detail, **common)
        self.limit_bytes = limit_bytes
        #: The declared size; None if the request declared none.
        self.got_bytes = got_bytes


class UnsupportedMediaType(RequestRefused):
    """``/round`` does not accept this Content-Type, or the .npy file needs a ``?dtype=``."""

    status = 415
    code = "unsupported_media_type"
    title = "Unsupported media type"


class UnsupportedEncoding(RequestRefused):
    """The Content-Encoding is not identity, gzip or deflate."""

    status = 415
    code = "unsupported_encoding"
    title = "Unsupported content encoding"


class InvalidDescriptor(RequestRefused):
    """The descriptor or its data breaks rules, each listed with its path."""

    status = 422
    code = "invalid_descriptor"
    title = "The descriptor or its data is invalid"

    @classmethod
    def of(cls, faults: Sequence[Fault]) -> InvalidDescriptor:
        """The refusal with these faults, which its detail lists on one line."""
        return cls("; ".join(map(str, faults)), faults=faults)

    @classmethod
    def at(cls, loc: tuple[str | int, ...], rule: str) -> InvalidDescriptor:
        """The refusal of one broken rule, at its path."""
        return cls.of([Fault(loc, rule)])


class MisdirectedHost(RequestRefused):
    """The service does not allow requests for this Host."""

    status = 421
    code = "misdirected_host"
    title = "The request is for another host"


class HeadersTooLarge(RequestRefused):
    """A header, or all of them together, is over the limit."""

    status = 431
    code = "headers_too_large"
    title = "The headers are too large"


class ForeignOrigin(RequestRefused):
    """A web page of another origin requested a change.

    Only the Open Inference Protocol uses this refusal, and it has no codes.
    """

    status = 403
    title = "The request comes from another origin"


class InternalError(RequestRefused):
    """The service failed; the request is not the cause."""

    status = 500
    code = "internal_error"
    title = "The service failed"


class Unimplemented(RequestRefused):
    """The service does not know the method, or the Transfer-Encoding."""

    status = 501
    code = "unimplemented"
    title = "Not implemented"


class NotOffered(RequestRefused):
    """The service is not configured for this operation.

    Only the Open Inference Protocol uses this refusal, and it has no codes.
    """

    status = 501
    title = "Not offered here"


class Overloaded(RequestRefused):
    """The service has no memory for this tensor now; nothing of the request was kept."""

    status = 503
    code = "overloaded"
    title = "The service is at capacity"
    transient = True


class Draining(RequestRefused):
    """The service is shutting down; retry on another instance."""

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
    """The compute backend failed on a valid request."""

    status = 503
    code = "backend_failed"
    title = "The compute backend failed"
    transient = True


class UnknownRefusal(RequestRefused):
    """A refusal with an unknown code; its status and code are those of the response."""

    def __init__(self, detail: str, *, status: int = 0, code: str = "", **common: Any) -> None:
        super().__init__(detail, **common)
        # Instance attributes: this is the only class with more than one status and code.
        self.status = status
        self.code = code
        self.transient = status in (408, 429, 502, 503, 504)


REFUSALS: dict[str, type[RequestRefused]] = {
    kind.code: kind for kind in RequestRefused.__subclasses__() if kind.code
}


if not TYPE_CHECKING:
    # Type checkers follow the star. The rest is for the client and the service.
    __all__ = sorted(
        name
        for name, value in globals().items()
        if isinstance(value, type) and issubclass(value, TensorRoundError | Fault)
    )

#: The service's page on the codes, as a relative URL reference.
ERRORS_PATH = "/docs/errors"


def problem(refusal: RequestRefused) -> dict[str, Any]:
    """The problem document of a refusal, as JSON values."""
    document = {
        "type": f"{ERRORS_PATH}#{refusal.code}",
        "title": refusal.title,
        "status": refusal.status,
        "detail": refusal.detail,
        "code": refusal.code,
        **refusal.extensions(),
    }
    if refusal.faults:
        document["errors"] = [{"loc": list(f.loc), "msg": f.msg} for f in refusal.faults]
    return document


def from_problem(
    document: Mapping[str, Any], *, status: int, retry_after: float | None = None
) -> RequestRefused:
    """The refusal of a problem document: the inverse of :func:`problem`.

    An unknown code, or a document of another form (a proxy's page, say), gives an
    :class:`UnknownRefusal` with the response's status. Its texts are on one line each, since they
    end in terminals and logs.
    """
    document = printable(document)
    detail = document.get("detail")
    code = document.get("code")
    common: dict[str, Any] = {"faults": _faults(document.get("errors")), "retry_after": retry_after}
    text = detail if isinstance(detail, str) else f"HTTP status {status}"
    kind = REFUSALS.get(code) if isinstance(code, str) else None
    if kind is None or kind.status != status:
        return UnknownRefusal(
            text, status=status, code=code if isinstance(code, str) else "", **common
        )
    stated = {name: document.get(name) for name in kind._members}
    common |= {name: value for name, value in stated.items() if isinstance(value, int)}
    return kind(text, **common)


def _faults(errors: Any) -> tuple[Fault, ...]:
    if not isinstance(errors, list):
        return ()
    return tuple(
        Fault(tuple(p for p in e["loc"] if isinstance(p, str | int)), e["msg"])
        for e in errors
        if isinstance(e, dict) and isinstance(e.get("loc"), list) and isinstance(e.get("msg"), str)
    )
