"""Calls without a client of one's own: by the process's."""

from __future__ import annotations

import os
from functools import lru_cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal

from ..contract.operators.operator import CastOperator, LinearOperator, RoundOperator
from ..contract.progress import ProgressCallback
from ..contract.rounding import Rounding, RoundingName
from .client import A, Client

if TYPE_CHECKING:
    from ..contract.dtypes import AnyDType
    from ..contract.operators.registry import OperatorWord


def round(
    x: A,
    operator: RoundOperator | OperatorWord | RoundingName | Rounding | str | None = None,
    *,
    rounding: RoundingName | Rounding | None = None,
    out: A | None = None,
    progress: bool | ProgressCallback = False,
    decimals: Literal[0] = 0,
) -> A:
    """Round every element of ``x``; returns an array of the same type, dtype and shape.

    The service at TENSOR_ROUND_URL rounds it, where that is set. Otherwise the service's engine
    does in this process, where it is installed, else the service at http://127.0.0.1:8000. The
    arguments and the errors are those of :meth:`Client.round`.
    """
    return _own_client().round(
        x, operator, rounding=rounding, out=out, progress=progress, decimals=decimals
    )


def cast(
    x: Any,
    to: AnyDType | None = None,
    operator: CastOperator | RoundingName | Rounding | str | None = None,
    *,
    rounding: RoundingName | Rounding | None = None,
    saturate: bool | None = None,
    out: Any = None,
    progress: bool | ProgressCallback = False,
) -> Any:
    """Convert every element of ``x`` to the type ``to``; returns an array of that type.

    It is done where :func:`round` does. The arguments and the errors are those of
    :meth:`Client.cast`.
    """
    return _own_client().cast(
        x, to, operator, rounding=rounding, saturate=saturate, out=out, progress=progress
    )


def quantize(
    x: Any,
    scale: Any = None,
    zero_point: Any = None,
    *,
    to: AnyDType | None = None,
    axis: int | None = None,
    block_size: int | None = None,
    saturate: bool | None = None,
    operator: LinearOperator | str = "onnx",
    out: Any = None,
    progress: bool | ProgressCallback = False,
) -> Any:
    """Quantize every element of ``x``; returns an array of the type ``to``.

    It is done where :func:`round` does. The arguments and the errors are those of
    :meth:`Client.quantize`.
    """
    return _own_client().quantize(
        x,
        scale,
        zero_point,
        to=to,
        axis=axis,
        block_size=block_size,
        saturate=saturate,
        operator=operator,
        out=out,
        progress=progress,
    )


def dequantize(
    x: Any,
    scale: Any = None,
    zero_point: Any = None,
    *,
    to: AnyDType | None = None,
    axis: int | None = None,
    block_size: int | None = None,
    operator: LinearOperator | str = "onnx",
    out: Any = None,
    progress: bool | ProgressCallback = False,
) -> Any:
    """Dequantize every element of ``x``; returns an array of the float type ``to``.

    It is done where :func:`round` does. The arguments and the errors are those of
    :meth:`Client.dequantize`.
    """
    return _own_client().dequantize(
        x,
        scale,
        zero_point,
        to=to,
        axis=axis,
        block_size=block_size,
        operator=operator,
        out=out,
        progress=progress,
    )


def fake_quantize(
    x: Any,
    scale: Any,
    zero_point: Any = None,
    *,
    through: AnyDType | None = None,
    axis: int | None = None,
    block_size: int | None = None,
    operator: str = "onnx",
    out: Any = None,
    progress: bool | ProgressCallback = False,
) -> Any:
    """Quantize every element of ``x``, and dequantize it; returns an array of its float type.

    It is done where :func:`round` does. The arguments and the errors are those of
    :meth:`Client.fake_quantize`.
    """
    return _own_client().fake_quantize(
        x,
        scale,
        zero_point,
        through=through,
        axis=axis,
        block_size=block_size,
        operator=operator,
        out=out,
        progress=progress,
    )


def _own_client() -> Client:
    return _client(*map(os.environ.get, ("TENSOR_ROUND_URL", "TENSOR_ROUND_API_KEY")))


@lru_cache(maxsize=1)
def _client(url: str | None, api_key: str | None) -> Client:
    """The process's client; it is made anew if the environment has changed."""
    if not url and find_spec("tensor_round_service"):
        url = "local:"
    return Client(url, api_key=api_key)
