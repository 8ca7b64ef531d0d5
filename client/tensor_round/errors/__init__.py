"""Everything that can go wrong, once, for the server and the client.

::

    TensorRoundError
     +- RequestRefused             the service said no; has ``status`` and ``code``
     |   +- MissingDescriptor, DuplicateDescriptor, MalformedJSON, ...  (one class a code)
     |   +- UnknownRefusal         a status and code this version does not know
     +- ConnectionFailed           the service could not be reached, or hung up
     +- DeadlineExceeded           the call's total deadline passed
     +- ProtocolViolation          an answer that no correct service sends
     +- CannotVerify               there is no verdict on a runtime (``conformance``)
     +- InvalidArgument            the client was called with something it cannot work with
         +- InvalidArgumentType    ... for its type

The server raises a class, a face turns it into bytes (problem+json, or the Open
Inference Protocol's ``{"error"}``), and the client rebuilds the class from ``code``.
No framework is known here.
"""

from .base import (
    CannotVerify,
    ConnectionFailed,
    DeadlineExceeded,
    Fault,
    InvalidArgument,
    InvalidArgumentType,
    ProtocolViolation,
    TensorRoundError,
)
from .problems import ERRORS_PATH, from_problem, problem
from .refusals import (
    REFUSALS,
    BackendFailed,
    DeviceOutOfMemory,
    DigestMismatch,
    Draining,
    DuplicateDescriptor,
    ForeignOrigin,
    HeadersTooLarge,
    InternalError,
    InvalidDescriptor,
    MalformedEncoding,
    MalformedJSON,
    MalformedNpy,
    MethodNotAllowed,
    MisdirectedHost,
    MissingDescriptor,
    NotFound,
    NotOffered,
    Overloaded,
    PayloadSizeMismatch,
    ReceiveTimeout,
    RequestRefused,
    TensorTooLarge,
    Unauthorized,
    UnknownRefusal,
    UnsupportedEncoding,
    UnsupportedMediaType,
)

__all__ = [
    "ERRORS_PATH",
    "REFUSALS",
    "BackendFailed",
    "CannotVerify",
    "ConnectionFailed",
    "DeadlineExceeded",
    "DeviceOutOfMemory",
    "DigestMismatch",
    "Draining",
    "DuplicateDescriptor",
    "Fault",
    "ForeignOrigin",
    "HeadersTooLarge",
    "InternalError",
    "InvalidArgument",
    "InvalidArgumentType",
    "InvalidDescriptor",
    "MalformedEncoding",
    "MalformedJSON",
    "MalformedNpy",
    "MethodNotAllowed",
    "MisdirectedHost",
    "MissingDescriptor",
    "NotFound",
    "NotOffered",
    "Overloaded",
    "PayloadSizeMismatch",
    "ProtocolViolation",
    "ReceiveTimeout",
    "RequestRefused",
    "TensorRoundError",
    "TensorTooLarge",
    "Unauthorized",
    "UnknownRefusal",
    "UnsupportedEncoding",
    "UnsupportedMediaType",
    "from_problem",
    "problem",
]
