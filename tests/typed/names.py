"""Code that imports every name, and what strict type checkers see then: ``make types`` reads it."""

from __future__ import annotations

from typing import Literal, assert_type

from tensor_round import *

assert_type(OnnxRound(22).descriptor("float16", [2]), OnnxDescriptor)
assert_type(WebNNRoundEven().descriptor("float16", [2]).input, WebNNTensor)
assert_type(ArrayAPIRound("floor").op, Literal["round", "trunc", "ceil", "floor"])
assert_type(InvalidDescriptor.of([Fault(("input",), "is required")]), InvalidDescriptor)
assert_type(
    from_onnx(None, 22),
    OnnxRound | OnnxFloor | OnnxCeil | OnnxCast | OnnxQuantizeLinear | OnnxDequantizeLinear,
)
