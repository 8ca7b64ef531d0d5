"""Exact tensor rounding through a service: results are right to the last bit.

The package is the contract of client and service (dtypes, operators, wire formats, errors,
published digests) and the client::

    import numpy as np, tensor_round as tr

    with tr.Client("http://127.0.0.1:8000") as client:
        y = client.round(np.array([-2.5, 0.5, 1.5], np.float32))
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .errors import (
    BackendFailed,
    CannotVerify,
    ConnectionFailed,
    DeadlineExceeded,
    DeviceOutOfMemory,
    DigestMismatch,
    Draining,
    DuplicateDescriptor,
    Fault,
    ForeignOrigin,
    HeadersTooLarge,
    InternalError,
    InvalidArgument,
    InvalidArgumentType,
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
    ProtocolViolation,
    ReceiveTimeout,
    RequestRefused,
    TensorRoundError,
    TensorTooLarge,
    Unauthorized,
    UnknownRefusal,
    UnsupportedEncoding,
    UnsupportedMediaType,
)
from .messages.differences import Differences
from .operators import (
    ArrayAPIArray,
    ArrayAPIDescriptor,
    BufferTensorDesc,
    DirectMLDescriptor,
    ElementWiseRoundDesc,
    IEEE754Descriptor,
    IEEE754Tensor,
    OnnxDescriptor,
    OnnxTensor,
    OpenVINOData,
    OpenVINODescriptor,
    OpenVINOTensor,
    StableHLODescriptor,
    WebNNDescriptor,
    WebNNTensor,
)
from .operators.objects import (
    ArrayAPIRound,
    DirectMLRound,
    IEEE754Round,
    OnnxRound,
    OpenVINORound,
    RoundOperator,
    StableHLORound,
    WebNNRoundEven,
)
from .operators.readers import from_dxdispatch, from_onnx, from_openvino
from .rounding import Rounding
from .sdk.async_client import AsyncClient
from .sdk.client import Client
from .sdk.output import Output
from .version import __version__ as __version__

if TYPE_CHECKING:
    from .conformance.compare.run import compare

__all__ = [
    "ArrayAPIArray",
    "ArrayAPIDescriptor",
    "ArrayAPIRound",
    "AsyncClient",
    "BackendFailed",
    "BufferTensorDesc",
    "CannotVerify",
    "Client",
    "ConnectionFailed",
    "DeadlineExceeded",
    "DeviceOutOfMemory",
    "Differences",
    "DigestMismatch",
    "DirectMLDescriptor",
    "DirectMLRound",
    "Draining",
    "DuplicateDescriptor",
    "ElementWiseRoundDesc",
    "Fault",
    "ForeignOrigin",
    "HeadersTooLarge",
    "IEEE754Descriptor",
    "IEEE754Round",
    "IEEE754Tensor",
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
    "OnnxDescriptor",
    "OnnxRound",
    "OnnxTensor",
    "OpenVINOData",
    "OpenVINODescriptor",
    "OpenVINORound",
    "OpenVINOTensor",
    "Output",
    "Overloaded",
    "PayloadSizeMismatch",
    "ProtocolViolation",
    "ReceiveTimeout",
    "RequestRefused",
    "RoundOperator",
    "Rounding",
    "StableHLODescriptor",
    "StableHLORound",
    "TensorRoundError",
    "TensorTooLarge",
    "Unauthorized",
    "UnknownRefusal",
    "UnsupportedEncoding",
    "UnsupportedMediaType",
    "WebNNDescriptor",
    "WebNNRoundEven",
    "WebNNTensor",
    "compare",
    "from_dxdispatch",
    "from_onnx",
    "from_openvino",
]


def __getattr__(name: str) -> Any:
    # It needs onnx, which is no dependency and slow to import.
    if name == "OnnxBackend":
        from .onnx_backend import OnnxBackend

        return OnnxBackend
    # Rounding does not need it.
    if name == "conformance":
        return import_module(".conformance", __name__)
    if name == "compare":
        return import_module(".conformance", __name__).compare
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    # Without the submodules that imports add to the namespace.
    return list(__all__)
