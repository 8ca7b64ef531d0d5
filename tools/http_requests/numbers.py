"""Numbers as JSON has them; a NaN's payload is not among what it can say."""

from __future__ import annotations

import numpy as np

from support.cases.array_cases import Array
from support.cases.drawn_tensors import DrawnTensor

Numbers = list[float | int | str]


def numbers(tensor: DrawnTensor) -> Numbers:
    """A tensor's elements."""
    names = {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}
    if not tensor.dtype.is_float:
        return list(map(int, tensor.x))
    return [names.get(str(x), x) for x in _doubles(tensor.x).tolist()]


def other_numbers(tensor: DrawnTensor, got: Numbers) -> str | None:
    """What is wrong with the elements of its result; None if nothing is."""
    if not tensor.dtype.is_float:
        same = np.array(got, tensor.x.dtype).tobytes() == tensor.result
        return None if same else "other numbers"
    with np.errstate(all="ignore"):
        values = np.array(list(map(float, got)), np.float64).astype(tensor.x.dtype)
    if values.shape != tensor.x.shape:
        return f"{values.size} numbers, not {tensor.x.size}"
    nans = np.isnan(_doubles(tensor.rounded))
    same = values.view(tensor.expected.dtype) == tensor.expected
    is_right = np.array_equal(np.isnan(_doubles(values)), nans) and (same | nans).all()
    return None if is_right else "other numbers"


def _doubles(x: Array) -> Array:
    with np.errstate(invalid="ignore"):  # signalling NaNs
        return x.astype(np.float64)
