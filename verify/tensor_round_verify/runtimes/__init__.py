"""The runtimes that can be verified, by their names on the command line.

Each family has a module. A runtime's package is imported only when the runtime is opened.
"""

from __future__ import annotations

import importlib
import os
from dataclasses import dataclass

from tensor_round.contract.errors import CannotVerify
from tensor_round.contract.quoting import not_accepted

from .command import is_program
from .function import Function, PythonFunction
from .runtime import NotSupported, Runtime, first_line

#: The default limit in seconds for a block in a program or function, and for a service's call.
TIMEOUT = 30.0


@dataclass(frozen=True, slots=True)
class RuntimeName:
    """One runtime: its name and argument, and the package that it needs.

    ``argument`` is as it is written behind the name, optional ones in brackets. ``factory`` is a
    class or function of a module here, which gets the argument and the limit in seconds.
    """

    name: str
    about: str
    factory: str
    package: str | None = None
    argument: str = ""

    @property
    def required(self) -> bool:
        """Whether there is no runtime without an argument."""
        return self.argument.startswith(":")

    def __str__(self) -> str:
        return self.name + self.argument

    def open(self, argument: str, timeout: float) -> Runtime:
        """The runtime; raises ``ImportError`` if a package is missing."""
        module, _, factory = self.factory.partition(".")
        family = importlib.import_module(f".{module}", __name__)
        runtime: Runtime = getattr(family, factory)(argument, timeout)
        return runtime


RUNTIMES = (
    RuntimeName(
        "onnxruntime",
        "ONNX Runtime",
        "onnx.OnnxRuntime",
        "onnxruntime onnx",
        argument="[:PROVIDER]",
    ),
    RuntimeName(
        "onnx-reference", "the onnx package's reference evaluator", "onnx.OnnxReference", "onnx"
    ),
    RuntimeName(
        "openvino",
        "OpenVINO, and QuantizeLinear as it reads it",
        "openvino.OpenVINO",
        "openvino",
        argument="[:DEVICE]",
    ),
    RuntimeName(
        "litert",
        "LiteRT, by XNNPACK or its own kernels",
        "litert.LiteRT",
        "ai-edge-litert",
        argument="[:builtin]",
    ),
    RuntimeName(
        "torch",
        "PyTorch",
        "torch.Torch",
        "torch",
        argument="[:DEVICE]",
    ),
    RuntimeName("jax", "JAX", "jax.Jax", "jax"),
    RuntimeName(
        "stablehlo", "StableHLO's interpreter, as in the jaxlib wheel", "stablehlo.StableHLO", "jax"
    ),
    RuntimeName("numpy", "NumPy, with the types of ml_dtypes", "arrays.NumPy"),
    RuntimeName("cupy", "CuPy", "arrays.open_cupy", "cupy-cuda13x"),
    RuntimeName(
        "webgpu",
        "WGSL on a GPU, or ggml's shader",
        "webgpu.WebGPU",
        "wgpu",
        argument="[:ggml]",
    ),
    RuntimeName(
        "torchao", "torchao's to_mx and nvfp4_quantize, of blocks", "blocks.open_torchao", "torchao"
    ),
    RuntimeName(
        "gfloat",
        "gfloat's rounding and its scales by amax, of blocks",
        "blocks.open_gfloat",
        "gfloat",
    ),
    RuntimeName(
        "mlx",
        "MLX on the CPU",
        "mlx.MLX",
        "mlx[cpu]",
    ),
    RuntimeName(
        "tinygrad",
        "tinygrad",
        "tinygrad.Tinygrad",
        "tinygrad",
        argument="[:DEVICE]",
    ),
    RuntimeName(
        "triton",
        "Triton's interpreter",
        "triton.Triton",
        "triton torch",
    ),
    RuntimeName("gguf", "gguf's MXFP4 and NVFP4, of blocks", "gguf.open_gguf", "gguf"),
    RuntimeName(
        "python",
        "a function that gets and returns a NumPy array",
        "function.open_function",
        argument=":MODULE:FUNCTION",
    ),
    RuntimeName(
        "cmd",
        "a program: little-endian elements on stdin and stdout",
        "command.Program",
        argument=":PROGRAM",
    ),
    RuntimeName("service", "a tensor-round service", "service.Service", argument=":URL"),
)


def open_runtime(text: str | Function, timeout: float = TIMEOUT) -> Runtime:
    """The runtime that ``NAME`` or ``NAME:ARGUMENT`` stands for, or that of a function.

    Raises :class:`CannotVerify` if it is unknown, not installed, or cannot be opened.
    """
    if not isinstance(text, str):
        return PythonFunction(text, timeout)
    name, colon, argument = text.partition(":")
    found = next((runtime for runtime in RUNTIMES if runtime.name == name), None)
    if found is None:
        if is_program(text):
            path = text if os.sep in text else f".{os.sep}{text}"
            raise CannotVerify(f"{text} is a program: did you mean cmd:{path}?")
        names = [runtime.name for runtime in RUNTIMES]
        raise CannotVerify(f"runtime: {not_accepted(name, names, listed=map(str, RUNTIMES))}")
    if bool(colon) and not found.argument:
        raise CannotVerify(f"{name} has no argument, got {text!r}")
    if found.required and not argument:
        raise CannotVerify(f"{name} needs {found.argument[1:]}: write {found}")
    try:
        adapter = found.open(argument, timeout)
    except ImportError as error:
        if found.package is None:
            raise
        raise CannotVerify(
            f"{name} cannot be imported ({first_line(error)}); pip install {found.package}"
        ) from error
    adapter.opened_as = text
    return adapter


__all__ = ["RUNTIMES", "TIMEOUT", "NotSupported", "PythonFunction", "Runtime", "open_runtime"]
