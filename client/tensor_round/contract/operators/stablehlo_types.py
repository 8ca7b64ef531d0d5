"""StableHLO's tensor types as text, ``tensor<2x3xf16>``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated

from pydantic import AfterValidator, JsonValue

from ..dtypes import BY_NAME, AnyDType
from ..errors import InvalidDescriptor
from ..layout import SIZE_LIMIT, Layout
from ..quoting import shown
from .dialect import Version
from .dialects.mlir import REJECTED
from .model import RANK_LIMIT
from .operator import canonical_name, name_in, sizes_of

_TITLE = "stablehlo"
_TENSOR = re.compile(r"tensor<((?:(?:0|[1-9]\d*|\?)x)*)([a-wyz]\w{0,31})>", re.ASCII)
_RULE = f"{_TITLE} takes a tensor type such as tensor<2x3xf16>"
_NOT_QUANTIZED = (
    f"{_TITLE} takes a quantized type only as the result of uniform_quantize and the operand of "
    "uniform_dequantize: dequantize first"
)


def _parts(operand: str) -> tuple[str, tuple[str, ...]]:
    """A type's element type and dimensions; raises :class:`ValueError` for another text."""
    found = _TENSOR.fullmatch(operand)
    if found is None:
        is_quantized = "!quant." in operand
        raise ValueError(_NOT_QUANTIZED if is_quantized else f"{_RULE}, got {shown(operand)}")
    return found[2], tuple(found[1].split("x")[:-1])


def _static(operand: str) -> str:
    """The type, if all dimensions are static and in range; raises :class:`ValueError`."""
    _, sizes = _parts(operand)
    if "?" in sizes:
        raise ValueError(f"{_TITLE} takes dimensions with sizes here, got {shown(operand)}")
    if len(sizes) > RANK_LIMIT:
        raise ValueError(f"{_TITLE} takes at most {RANK_LIMIT} dimensions here, got {len(sizes)}")
    if any(len(size) > 19 or int(size) >= SIZE_LIMIT for size in sizes):
        raise ValueError(f"{_TITLE} takes sizes of 0 to 2^63-1, got {shown(operand)}")
    return operand


def layout_of(
    operand: str, version: Version, dtypes: Mapping[str, str], field: str = "operand"
) -> Layout:
    """The layout of a tensor type; raises :class:`InvalidDescriptor`."""
    element, sizes = _parts(operand)
    if element not in dtypes:
        why = REJECTED.get(element, f"got {element}")
        raise InvalidDescriptor.at((field,), f"{why}; {version.takes}")
    return Layout.of(BY_NAME[dtypes[element]], tuple(map(int, sizes)), loc=(field,))


def spellings(*names: str) -> dict[str | int, str]:
    """Names of operations, with and without the prefix of their dialect."""
    return {prefix + name: name for prefix in ("", "stablehlo.") for name in names}


TensorText = Annotated[str, AfterValidator(_static)]
PATTERN: dict[str, JsonValue] = {
    "pattern": r"^tensor<((0|[1-9][0-9]*)x)*[a-wyz][A-Za-z0-9_]{0,31}>$"
}
OPERAND = "The operand's type: sizes and the element type, separated by x. The element type is "


def tensor_text(
    names: Mapping[str, str], dtype: AnyDType | None, shape: Sequence[int] | None
) -> str:
    """The text of a tensor's type."""
    sizes = "".join(f"{size}x" for size in sizes_of(shape))
    return f"tensor<{sizes}{name_in(names, canonical_name(dtype))}>"
