"""Operators as text, for command lines and queries: ``directml:TOWARD_INFINITY``."""

from __future__ import annotations

import contextlib
import re
from functools import lru_cache
from typing import Any, cast

from ..errors import Fault, InvalidDescriptor
from ..quoting import shown
from ..rounding import Rounding
from . import DIALECTS
from .objects import (
    ArrayAPIRound,
    DirectMLRound,
    IEEE754Round,
    OnnxRound,
    OpenVINORound,
    RoundOperator,
    StableHLORound,
    WebNNRoundEven,
)
from .onnx import NEWEST_OPSET, OLDEST_OPSET

#: The accepted texts, for help and error messages.
SPELLINGS = (
    f"{', '.join(Rounding)}; onnx or onnx:OPSET ({OLDEST_OPSET} to {NEWEST_OPSET}); "
    f"openvino or openvino:MODE ({', '.join(DIALECTS['openvino'].modes)}); "
    f"directml:MODE ({', '.join(DIALECTS['directml'].modes)}) or directml:MODE:FEATURE_LEVEL; "
    f"webnn; stablehlo:OP ({', '.join(DIALECTS['stablehlo'].modes)}); "
    f"array_api:OP ({', '.join(DIALECTS['array_api'].modes)})"
)

#: The operators of the other dialects in each of their modes, as ``compare`` lists them.
_WORDS = tuple(
    word
    for name, dialect in DIALECTS.items()
    if name != "ieee754"
    for word in ([f"{name}:{mode}" for mode in dialect.modes] or [name])
)

_INTEGER = re.compile(r"\d{1,9}", re.ASCII)


@lru_cache(maxsize=64)
def operator_from_text(text: str, loc: tuple[str, ...] = ("operator",)) -> RoundOperator:
    """The operator that ``text`` names.

    ``text`` is an IEEE 754 rounding direction, or a dialect and, after colons, its operator's
    attributes. Raises :class:`InvalidDescriptor` at ``loc`` with the accepted texts.
    """
    dialect, *words = text.split(":")
    try:
        return _operator(dialect, words)
    except InvalidDescriptor as error:
        faults = [Fault(loc, fault.msg) for fault in error.faults]
    except LookupError:
        faults = [Fault(loc, f"must be one of {SPELLINGS}, got {shown(text)}")]
    raise InvalidDescriptor.of(faults)


def operators_on(dtype: str, shape: tuple[int, ...]) -> dict[str, tuple[str, ...]]:
    """The dialects' operators that accept a packed tensor, by their rounding direction."""
    found: dict[str, tuple[str, ...]] = {rounding.value: () for rounding in Rounding}
    for text in _WORDS:
        with contextlib.suppress(InvalidDescriptor):
            rounding = operator_from_text(text).prepare(dtype, shape).call.rounding.value
            found[rounding] = (*found[rounding], text)
    return found


def _operator(dialect: str, words: list[str]) -> RoundOperator:
    # Any: the operators check their own attributes.
    given: list[Any] = [int(word) if _INTEGER.fullmatch(word) else word for word in words]
    match dialect, len(given):
        case ("onnx", 0 | 1) if all(isinstance(word, int) for word in given):
            return OnnxRound(*given)
        case ("openvino", 0 | 1):
            return OpenVINORound(*given)
        case ("directml", 1 | 2):
            return DirectMLRound(*given)
        case ("webnn", 0):
            return WebNNRoundEven()
        case ("stablehlo", 1):
            return StableHLORound(*given)
        case ("array_api", 1):
            return ArrayAPIRound(*given)
        case (rounding, 0) if rounding in Rounding.__members__.values():
            return IEEE754Round(cast(Rounding, rounding))
        case _:
            raise LookupError
