"""The runtimes that can be verified, by their names on the command line.

Each family has a module. A runtime's package is imported only when the runtime is opened.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from dataclasses import dataclass

from tensor_round.contract.errors import CannotVerify

from .command import Program, is_program
from .function import PythonFunction, open_function
from .runtime import Adapter, NotTaken, Runtime, first_line
from .service import Service

#: The default limit in seconds for a block in a program or function, and for a service's call.
TIMEOUT = 30.0


@dataclass(frozen=True, slots=True)
class RuntimeName:
    """One runtime: its name, its argument, its factory, and the package that it needs."""

    name: str
    argument: str
    required: bool
    about: str
    open: Callable[[str, float], Adapter]
    package: str | None = None
    #: Whether it casts or quantizes too.
    converts: bool = False

    def __str__(self) -> str:
        if not self.argument:
            return self.name
        return f"{self.name}:{self.argument}" if self.required else f"{self.name}[:{self.argument}]"


def _imported(module: str, factory: str) -> Callable[[str, float], Adapter]:
    def open_(argument: str, _: float) -> Adapter:
        family = importlib.import_module(f".{module}", __name__)
        adapter: Adapter = getattr(family, factory)(argument)
        return adapter

    return open_


RUNTIMES = (
    RuntimeName(
        *("onnxruntime", "PROVIDER", False, "ONNX Runtime's Round, Ceil, Floor"),
        _imported("onnx", "OnnxRuntime"),
        "onnxruntime",
        converts=True,
    ),
    RuntimeName(
        *("onnx-reference", "", False, "the onnx package's reference evaluator"),
        _imported("onnx", "OnnxReference"),
        "onnx",
        converts=True,
    ),
    RuntimeName(
        *("onnx-model", "FILE", True, "a model of one input and one output, by ONNX Runtime"),
        _imported("onnx", "OnnxModel"),
        "onnxruntime",
    ),
    RuntimeName(
        *("openvino", "DEVICE", False, "OpenVINO's Round-5"),
        _imported("openvino", "OpenVINO"),
        "openvino",
        converts=True,
    ),
    RuntimeName(
        *("litert", "builtin", False, "LiteRT's ROUND, CEIL, FLOOR, by XNNPACK or its own kernels"),
        _imported("litert", "LiteRT"),
        "ai-edge-litert",
    ),
    RuntimeName(
        *("torch", "DEVICE", False, "PyTorch's round, trunc, ceil, floor"),
        _imported("torch", "Torch"),
        "torch",
        converts=True,
    ),
    RuntimeName(
        *("jax", "", False, "JAX's lax.round, trunc, ceil, floor"),
        _imported("jax", "Jax"),
        "jax",
        converts=True,
    ),
    RuntimeName(
        *("stablehlo", "", False, "StableHLO's interpreter, as in the jaxlib wheel"),
        _imported("stablehlo", "StableHLO"),
        "jax",
        converts=True,
    ),
    RuntimeName(
        *("numpy", "", False, "NumPy's rint, trunc, ceil, floor; ml_dtypes' types"),
        _imported("arrays", "NumPy"),
        converts=True,
    ),
    RuntimeName(
        *("cupy", "", False, "CuPy's rint, trunc, ceil, floor"),
        _imported("arrays", "open_cupy"),
        "cupy-cuda13x",
    ),
    RuntimeName(
        *("webgpu", "ggml", False, "WGSL's round, trunc, ceil, floor on a GPU, or ggml's shader"),
        _imported("webgpu", "WebGPU"),
        "wgpu",
    ),
    RuntimeName(
        *("torchao", "", False, "torchao's to_mx and nvfp4_quantize, of blocks"),
        _imported("blocks", "open_torchao"),
        "torchao",
        converts=True,
    ),
    RuntimeName(
        *("python", "MODULE:FUNCTION", True, "a function that gets and returns a NumPy array"),
        open_function,
        converts=True,
    ),
    RuntimeName(
        *("cmd", "PROGRAM", True, "a program: little-endian elements on stdin and stdout"),
        Program,
        converts=True,
    ),
    RuntimeName(*("service", "URL", True, "a tensor-round service"), Service),
)


def open_runtime(text: str, timeout: float = TIMEOUT, *, converts: bool = False) -> Adapter:
    """The runtime that ``NAME`` or ``NAME:ARGUMENT`` stands for.

    Raises :class:`CannotVerify` if it is unknown, not installed, cannot be opened, or if it is to
    cast or quantize and does not.
    """
    name, colon, argument = text.partition(":")
    found = next((runtime for runtime in RUNTIMES if runtime.name == name), None)
    if found is None:
        if is_program(text):
            path = text if os.sep in text else f".{os.sep}{text}"
            raise CannotVerify(f"{text} is a program: did you mean cmd:{path}?")
        known = ", ".join(map(str, RUNTIMES))
        raise CannotVerify(f"no runtime is called {name!r}; there are {known}")
    if bool(colon) and not found.argument:
        raise CannotVerify(f"{name} has no argument, got {text!r}")
    if found.required and not argument:
        raise CannotVerify(f"{name} needs {found.argument}: write {found}")
    if converts and not found.converts:
        known = ", ".join(row.name for row in RUNTIMES if row.converts)
        raise CannotVerify(f"{name} has no such operator here; these have: {known}")
    try:
        return found.open(argument, timeout)
    except ImportError as error:
        if found.package is None:
            raise
        raise CannotVerify(
            f"{name} cannot be imported ({first_line(error)}); pip install {found.package}"
        ) from error


__all__ = [
    "RUNTIMES",
    "TIMEOUT",
    "Adapter",
    "NotTaken",
    "PythonFunction",
    "Runtime",
    "open_runtime",
]
