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
from .problems import ERRORS_PATH as ERRORS_PATH
from .problems import from_problem as from_problem
from .problems import problem as problem
from .refusals import REFUSALS as REFUSALS
from .refusals import (
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

#: What the package exports; the rest is for the client and the service.
__all__ = [
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
]
