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

from .clients.client import AsyncClient as AsyncClient
from .clients.client import Client as Client
from .clients.tensors import Output as Output
from .contract import errors
from .contract.differences.document import Differences as Differences
from .contract.errors import *
from .contract.operators import RoundOperator as RoundOperator
from .contract.operators import dialects
from .contract.operators.dialects import *
from .contract.operators.readers import from_dxdispatch as from_dxdispatch
from .contract.operators.readers import from_onnx as from_onnx
from .contract.operators.readers import from_openvino as from_openvino
from .contract.rounding import Rounding as Rounding
from .contract.version import __version__ as __version__

# What type checkers read are the stars, and names imported as themselves.
if TYPE_CHECKING:
    from tensor_round_verify.comparison import compare as compare
else:
    __all__ = sorted(
        [
            *(*errors.__all__, *dialects.__all__),
            *("AsyncClient", "Client", "Differences", "Output", "RoundOperator", "Rounding"),
            *("compare", "from_dxdispatch", "from_onnx", "from_openvino"),
        ]
    )

    def __dir__() -> list[str]:
        # Without the submodules that imports add to the namespace.
        return list(__all__)


def __getattr__(name: str) -> Any:
    # It needs onnx, which is no dependency and slow to import.
    if name == "OnnxBackend":
        from tensor_round_verify.onnx_backend import OnnxBackend

        return OnnxBackend
    # Rounding does not need it.
    if name == "conformance":
        return import_module(".conformance", __name__)
    if name == "compare":
        return import_module(".conformance", __name__).compare
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
