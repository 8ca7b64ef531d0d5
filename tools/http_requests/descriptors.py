"""Descriptors of a tensor in each dialect that has names for it."""

from __future__ import annotations

import random
from typing import Any

from support.cases.drawn_tensors import DrawnTensor
from support.http.native_form import ieee754
from tensor_round.contract.errors import InvalidDescriptor
from tensor_round.contract.operators.dialect import Dialect
from tensor_round.contract.operators.registry import DIALECTS


def descriptor(tensor: DrawnTensor, source: random.Random) -> tuple[str, int]:
    """A descriptor as a field's value, and the zeros that follow the result's last element."""
    shape = _shape(tensor.x.size, source)
    found = {"ieee754": ieee754(tensor.dtype.name, shape, tensor.rounding)}
    for name, dialect in DIALECTS.items():
        if (text := _of(dialect, tensor, shape, source)) is not None:
            found[name] = text
    name = source.choice(list(found))
    # DirectML sizes its tensors in units of four bytes.
    padding = -tensor.expected.nbytes % 4 if name == "directml" else 0
    return found[name], padding


def _of(
    dialect: Dialect, tensor: DrawnTensor, shape: list[int], source: random.Random
) -> str | None:
    """The descriptor in any version of a dialect; None if that does not take the tensor so."""
    modes = [mode for mode, rounding in dialect.modes.items() if rounding == tensor.rounding]
    operator = dialect.object(*modes, **source.choice(dialect.versions).attributes)
    try:
        prepared = operator.prepare(tensor.dtype.name, tuple(shape))
    except InvalidDescriptor:
        return None
    takes = prepared.call.rounding == tensor.rounding
    return prepared.descriptor.decode() if takes else None


def _shape(size: int, source: random.Random) -> list[int]:
    shapes = [[size], [1, size], [size, 1]]
    shapes += [[size // n, n] for n in (2, 3, 8) if size % n == 0]
    return source.choice(shapes)


def directml(dtype: Any, sizes: list[int], rounding: Any) -> dict[str, Any]:
    """An operator of DirectML, but for the dialect's name."""
    layout = {"DataType": dtype, "Sizes": sizes}
    desc = {"InputTensor": layout, "OutputTensor": layout, "RoundingMode": rounding}
    kind = "DML_OPERATOR_ELEMENT_WISE_ROUND"
    return {"feature_level": "3_0", "type": kind, "desc": desc}
