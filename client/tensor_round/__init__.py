"""Exact tensor rounding through a service: results are right to the last bit.

The package is the contract of client and service (dtypes, operators, wire formats, errors,
published digests) and the client::

    import numpy as np, tensor_round as tr

    y = tr.round(np.array([-2.5, 0.5, 1.5], np.float32), "directml:TOWARD_INFINITY")
    with tr.Client("http://127.0.0.1:8000") as client:
        y = client.round(np.array([-2.5, 0.5, 1.5], np.float32))
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, get_type_hints

from .clients.client import AsyncClient as AsyncClient
from .clients.client import Client as Client
from .clients.own import cast as cast
from .clients.own import dequantize as dequantize
from .clients.own import fake_quantize as fake_quantize
from .clients.own import quantize as quantize
from .clients.own import round as round
from .contract import errors
from .contract.errors import *
from .contract.operators.operator import CastOperator as CastOperator
from .contract.operators.operator import LinearOperator as LinearOperator
from .contract.operators.operator import RoundOperator as RoundOperator
from .contract.rounding import Rounding as Rounding

# What type checkers read are the stars, and names imported as themselves. At run time they are
# imported when they are used: pydantic, which they need, takes longer than all the rest.
if TYPE_CHECKING:
    from tensor_round_verify.comparison import Comparison as Comparison
    from tensor_round_verify.comparison import compare as compare
    from tensor_round_verify.onnx_backend import OnnxBackend as OnnxBackend

    from . import conformance as conformance
    from .clients.tensor_memory import Output as Output
    from .contract.differences.document import Differences as Differences
    from .contract.operators.importers import from_dxdispatch as from_dxdispatch
    from .contract.operators.importers import from_onnx as from_onnx
    from .contract.operators.importers import from_openvino as from_openvino
    from .contract.operators.registry import *
    from .contract.version import __version__ as __version__
else:
    #: The modules of further names. The dialects' names are those of their modules.
    _MODULES = {
        "Differences": ".contract.differences.document",
        "Output": ".clients.tensor_memory",
        **dict.fromkeys(("Comparison", "compare"), ".conformance"),
        **dict.fromkeys(
            ("from_dxdispatch", "from_onnx", "from_openvino"), ".contract.operators.importers"
        ),
    }
    #: Likewise, of names that are not in ``__all__``.
    _HIDDEN = {
        "OnnxBackend": "tensor_round_verify.onnx_backend",
        "__version__": ".contract.version",
    }

    def _show_here(value: Any) -> None:
        """Have help, tracebacks and pickles name a class as callers do."""
        if isinstance(value, type):
            if annotations := vars(value).get("__annotations__"):
                # Pydantic, for one, looks the names in annotations up in the class's module.
                hints = get_type_hints(value, include_extras=True)
                value.__annotations__ = {name: hints[name] for name in annotations}
                for name, field in vars(value).get("__dataclass_fields__", {}).items():
                    field.type = hints[name]
            value.__module__ = __name__

    for _value in tuple(globals().values()):
        if getattr(_value, "__module__", "").startswith(f"{__name__}."):
            _show_here(_value)

    def _registry() -> Any:
        return import_module(".contract.operators.registry", __name__)

    def __getattr__(name: str) -> Any:
        if name == "__all__":
            operators = ("CastOperator", "LinearOperator", "RoundOperator")
            calls = ("cast", "dequantize", "fake_quantize", "quantize", "round")
            own = ("AsyncClient", "Client", *operators, "Rounding", *calls)
            value = sorted((*own, *errors.__all__, *_registry().__all__, *_MODULES))
        elif name == "conformance":
            value = import_module(".conformance", __name__)
        elif module := _MODULES.get(name) or _HIDDEN.get(name):
            value = getattr(import_module(module, __name__), name)
        elif not name.startswith("_") and name in _registry().__all__:
            value = getattr(_registry(), name)
        else:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        _show_here(value)
        return globals().setdefault(name, value)

    def __dir__() -> list[str]:
        # Without the submodules that imports add to the namespace.
        return list(__getattr__("__all__"))
