"""How the tensors of requests are drawn."""

from __future__ import annotations

import json
import random
from typing import Any

import numpy as np

from support.cases.array_cases import PERIOD, Array, DrawnTensor
from support.http.native_form import ieee754
from tensor_round.contract.dtypes import BY_NAME
from tensor_round.contract.errors import InvalidDescriptor
from tensor_round.contract.functions import Convert
from tensor_round.contract.operators.dialect import Operator
from tensor_round.contract.operators.operator import Kind
from tensor_round.contract.operators.registry import OPERATORS
from tensor_round_verify.reference import ROUNDINGS, WIDTHS

#: Sizes in bytes that come often.
_COMMON = (4, 16, 40, 64, 1024, 4096, 12_000)
_ABOUT_64_KIB = (60 << 10, (64 << 10) - 4, 64 << 10, (64 << 10) + 4, 70 << 10)
_LARGE = (100 << 10, 160 << 10, 300 << 10, 1 << 20)


class Source(random.Random):
    """Random numbers from a seed, and the bytes of the largest tensor drawn by them."""

    max_bytes = 1 << 20


def tensor(
    source: Source,
    max_bytes: int = 1 << 62,
    dtypes: tuple[str, ...] = tuple(WIDTHS),
    *,
    casts: bool = False,
) -> DrawnTensor:
    """Any tensor of at most so many bytes; half of them of float32, if that is one of the types.

    With ``casts`` a third of them are cast to another type.
    """
    common = "float32" in dtypes and source.random() < 0.5
    dtype = "float32" if common else source.choice(dtypes)
    rounding = source.choice(("ties_to_even",) * 5 + ROUNDINGS)
    count = size(source, max_bytes) * 8 // WIDTHS[dtype]
    if casts and source.random() < 1 / 3:
        to = source.choice([name for name in BY_NAME if name != dtype])
        if source.random() < 0.5:
            rounding = Convert.between(BY_NAME[dtype], BY_NAME[to]).rounding
        return of(source, dtype, rounding, count, to=to, saturates=source.random() < 0.5)
    return of(source, dtype, rounding, count)


def of(source: Source, dtype: str, rounding: str, count: int, **cast: Any) -> DrawnTensor:
    """A tensor of so many elements."""
    return DrawnTensor.of(dtype, rounding, count, source.randrange(PERIOD), **cast)


def size(source: Source, max_bytes: int = 1 << 62) -> int:
    """A number of bytes: small sizes and common ones are drawn more often than others."""
    kind = source.random()
    if kind < 0.72:
        drawn = source.choice(_COMMON) if kind < 0.6 else source.randrange(8, 20_000, 8)
    elif kind < 0.9:
        drawn = source.choice(_ABOUT_64_KIB) if kind < 0.87 else source.randrange(60_000, 70_000, 8)
    elif kind < 0.98:
        drawn = source.choice(_LARGE)
    else:
        drawn = int(source.max_bytes ** source.random()) & ~7
    return min(drawn, max_bytes, source.max_bytes)


def descriptor(tensor: DrawnTensor, source: random.Random) -> tuple[str, int]:
    """A descriptor as a field's value, and the zeros that follow the result's last element."""
    shape = _shape(tensor.x.size, source)
    found = {"ieee754": described(tensor, shape)}
    for name, operator in OPERATORS.items():
        is_cast = operator.kind is Kind.CAST
        if not (is_cast if tensor.is_cast else operator.rounds_to_integral):
            continue
        if (text := _of(operator, tensor, shape, source)) is not None:
            found[name] = text
    name = source.choice(list(found))
    # DirectML sizes its tensors in units of four bytes.
    padding = -len(tensor.result) % 4 if name.startswith("directml") else 0
    return found[name], padding


def described(tensor: DrawnTensor, shape: list[int]) -> str:
    """IEEE 754's descriptor."""
    text = ieee754(tensor.dtype.name, shape, tensor.rounding)
    if not tensor.is_cast:
        return text
    own = {"operation": "convertFormat", "saturate": tensor.saturates}
    return json.dumps({**json.loads(text), **own, "output": {"dtype": tensor.target.name}})


def _of(row: Operator, tensor: DrawnTensor, shape: list[int], source: random.Random) -> str | None:
    """The descriptor in any version of an operator; None if that does not take the tensor so."""
    modes = [mode for mode, rounding in row.modes.items() if rounding == tensor.rounding]
    if tensor.is_cast:
        modes = [tensor.target.name, *modes]
    try:
        operator = row.object(*modes, **source.choice(row.versions).attributes)
        prepared = operator.prepare(tensor.dtype.name, tuple(shape))
    except InvalidDescriptor:
        return None
    function = prepared.call.function
    saturates = isinstance(function, Convert) and function.saturates
    takes = (function.rounding, saturates) == (tensor.rounding, tensor.saturates)
    return prepared.descriptor.decode() if takes else None


def _shape(size: int, source: random.Random) -> list[int]:
    shapes = [[size], [1, size], [size, 1]]
    shapes += [[size // n, n] for n in (2, 3, 8) if size % n == 0]
    return source.choice(shapes)


Numbers = list[float | int | str]


def numbers(tensor: DrawnTensor) -> Numbers:
    """A tensor's elements."""
    names = {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}
    if not tensor.dtype.is_float:
        return list(map(int, tensor.x))
    return [names.get(str(x), x) for x in _doubles(tensor.x).tolist()]


def other_numbers(tensor: DrawnTensor, got: Numbers) -> str | None:
    """What is wrong with the elements of its result; None if nothing is."""
    if not tensor.target.is_float:
        found = np.array(got, tensor.rounded.dtype).view(tensor.expected.dtype)
        return None if np.array_equal(found, tensor.expected) else "other numbers"
    with np.errstate(all="ignore"):
        values = np.array(list(map(float, got)), np.float64).astype(tensor.rounded.dtype)
    if values.shape != tensor.x.shape:
        return f"{values.size} numbers, not {tensor.x.size}"
    nans = np.isnan(_doubles(tensor.rounded))
    # In JSON a NaN has no sign, which tells its result in a type without NaNs.
    lost = np.isnan(_doubles(tensor.x)) & ~nans
    same = values.view(tensor.expected.dtype) == tensor.expected
    is_right = np.array_equal(np.isnan(_doubles(values)), nans) and (same | nans | lost).all()
    return None if is_right else "other numbers"


def _doubles(x: Array) -> Array:
    with np.errstate(invalid="ignore"):  # signalling NaNs
        return x.astype(np.float64)
