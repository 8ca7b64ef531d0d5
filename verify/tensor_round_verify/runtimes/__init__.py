"""The runtimes that can be verified, by their names on the command line.

Each family has a module. A runtime's package is imported only when the runtime is opened.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from ..errors import CannotVerify
from .command import Program
from .function import PythonFunction, open_function
from .runtime import Runtime, first_line
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
    open: Callable[[str, float], Runtime]
    package: str | None = None

    def __str__(self) -> str:
        if not self.argument:
            return self.name
        return f"{self.name}:{self.argument}" if self.required else f"{self.name}[:{self.argument}]"


def _imported(module: str, factory: str) -> Callable[[str, float], Runtime]:
    def open_(argument: str, _: float) -> Runtime:
        adapter = importlib.import_module(f".{module}", __name__)
        runtime: Runtime = getattr(adapter, factory)(argument)
        return runtime

    return open_


RUNTIMES = (
    RuntimeName(
        *("onnxruntime", "PROVIDER", False, "ONNX Runtime's Round, Ceil, Floor"),
        _imported("onnx", "OnnxRuntime"),
        "onnxruntime",
    ),
    RuntimeName(
        *("onnx-reference", "", False, "the onnx package's reference evaluator"),
        _imported("onnx", "OnnxReference"),
        "onnx",
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
    ),
    RuntimeName(
        *("jax", "", False, "JAX's lax.round, trunc, ceil, floor"), _imported("jax", "Jax"), "jax"
    ),
    RuntimeName(
        *("numpy", "", False, "NumPy's rint, trunc, ceil, floor; ml_dtypes' types"),
        _imported("arrays", "open_numpy"),
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
        *("python", "MODULE:FUNCTION", True, "a function that gets and returns a NumPy array"),
        open_function,
    ),
    RuntimeName(
        *("cmd", "PROGRAM", True, "a program: little-endian elements on stdin and stdout"), Program
    ),
    RuntimeName(*("service", "URL", True, "a tensor-round service"), Service),
)


Opened = TypeVar("Opened")


def open_runtime(text: str, timeout: float = TIMEOUT) -> Runtime:
    """The runtime that ``NAME`` or ``NAME:ARGUMENT`` stands for; raises as :func:`open_by`."""
    return open_by({runtime.name: runtime.open for runtime in RUNTIMES}, text, timeout)


def open_by(
    openers: Mapping[str, Callable[[str, float], Opened]], text: str, timeout: float
) -> Opened:
    """Open ``NAME`` or ``NAME:ARGUMENT`` by the opener for the name.

    Raises :class:`CannotVerify` if it is unknown, not installed, or cannot be opened.
    """
    name, colon, argument = text.partition(":")
    found = next((runtime for runtime in RUNTIMES if runtime.name == name), None)
    if found is None:
        known = ", ".join(map(str, RUNTIMES))
        raise CannotVerify(f"no runtime is called {name!r}; there are {known}")
    if bool(colon) and not found.argument:
        raise CannotVerify(f"{name} takes nothing behind it, got {text!r}")
    if found.required and not argument:
        raise CannotVerify(f"{name} needs {found.argument}: write {found}")
    if name not in openers:
        raise CannotVerify(f"{name} has no such operator here; these have: {', '.join(openers)}")
    try:
        return openers[name](argument, timeout)
    except ImportError as error:
        if found.package is None:
            raise
        raise CannotVerify(
            f"{name} cannot be imported ({first_line(error)}); pip install {found.package}"
        ) from error


__all__ = [
    "RUNTIMES",
    "TIMEOUT",
    "Program",
    "PythonFunction",
    "Runtime",
    "RuntimeName",
    "Service",
    "open_runtime",
]
