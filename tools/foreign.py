"""Runtimes without an adapter of their own, as functions that ``tensor-round verify`` judges.

``PYTHONPATH=tools tensor-round verify python:foreign:iree --dtype float32``. They need MNN, IREE's
compiler and runtime, and ncnn: ``tests/interop/oracles/requirements.txt``.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

#: MLIR's operations, which IREE compiles.
_MLIR = {
    "ties_to_even": "roundeven",
    "ties_to_away": "round",
    "toward_zero": "trunc",
    "toward_positive": "ceil",
    "toward_negative": "floor",
}
#: MNN's: one for the nearest integer, and it does not say of which halves.
_MNN = {"ties_to_away": "round", "toward_positive": "ceil", "toward_negative": "floor"}


def iree(x: Array, rounding: str) -> Array:
    """IREE's code for this CPU."""
    if x.dtype != np.float32:
        raise NotImplementedError("only float32 is tried")
    flat = np.ascontiguousarray(x).reshape(-1)
    found: Array = _compiled(_MLIR[rounding])(flat).to_host()
    return found.reshape(x.shape)


@cache
def _compiled(operation: str) -> Any:
    import iree.compiler
    import iree.runtime

    tensor = "tensor<?xf32>"
    code = iree.compiler.compile_str(
        f"func.func @run(%x: {tensor}) -> {tensor} {{\n"
        f"  %y = math.{operation} %x : {tensor}\n"
        f"  return %y : {tensor}\n"
        "}",
        target_backends=["llvm-cpu"],
        extra_args=["--iree-llvmcpu-target-cpu=host"],
    )
    context = iree.runtime.SystemContext(config=iree.runtime.Config("local-task"))
    context.add_vm_module(iree.runtime.VmModule.copy_buffer(context.instance, code))
    return context.modules.module["run"]


def mnn(x: Array, rounding: str) -> Array:
    """MNN's operations on the CPU."""
    import MNN.expr as expr

    if x.dtype != np.float32:
        raise NotImplementedError("only float32 is tried")
    if rounding not in _MNN:
        raise NotImplementedError("it has no such operation")
    if not x.size:  # it cannot read what has no elements
        return x.copy()
    given = expr.const(np.ascontiguousarray(x).reshape(-1), [x.size], expr.NCHW, expr.float)
    return np.array(getattr(expr, _MNN[rounding])(given).read(), np.float32).reshape(x.shape)


def ncnn(x: Array, dtype: Any) -> Array:
    """Ncnn's cast of float32 to bfloat16."""
    import ncnn as runtime

    if x.dtype != np.float32 or dtype != ml_dtypes.bfloat16:
        raise NotImplementedError("only float32 to bfloat16 is tried")
    flat, found = np.ascontiguousarray(x).reshape(-1), runtime.Mat()  # a Mat keeps no array alive
    runtime.cast_float32_to_bfloat16(runtime.Mat(flat), found)
    return np.array(found).view(ml_dtypes.bfloat16).reshape(x.shape)
