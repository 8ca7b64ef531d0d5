"""Callers' dtype and shape arguments, and the names that dialects have for dtypes."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence

import numpy as np

from ..dtypes import BY_NAME, from_numpy
from ..errors import InvalidArgument
from ..names import AnyDType


def canonical_name(dtype: AnyDType | None) -> str:
    """The canonical name of a dtype; an unsupported dtype keeps its own name."""
    if dtype is None:
        raise InvalidArgument("dtype is needed: the operator states none")
    if isinstance(dtype, str) and dtype in BY_NAME:
        return dtype
    try:
        numpy = np.dtype(dtype)
    except (TypeError, ValueError, SyntaxError):
        if isinstance(dtype, str):
            return dtype  # the dialect's model refuses it with the list of accepted ones
        raise InvalidArgument(f"dtype must be a name or a NumPy type, got {dtype!r}") from None
    row = from_numpy(numpy)
    return numpy.name if row is None else row.name


def sizes_of(shape: Sequence[int] | None) -> tuple[int, ...]:
    """The sizes of a shape, as Python integers."""
    if shape is None:
        raise InvalidArgument("shape is needed: the operator states none")
    try:
        return tuple(map(operator.index, shape))
    except TypeError:
        raise InvalidArgument("shape must be a sequence of integers") from None


def name_in(names: Mapping[str, str], dtype: str) -> str:
    """The name of a dtype in ``names``; without one, the canonical name, which models refuse."""
    return next((name for name, canonical in names.items() if canonical == dtype), dtype)
