"""``stablehlo``: StableHLO's reference interpreter, which the jaxlib wheel contains."""

from __future__ import annotations

from collections.abc import Callable

import jaxlib
import numpy as np
from jax.interpreters import mlir
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from tensor_round.contract.dtypes import BY_NAME

from ..conversions.conversion import Cast
from ..reference import FLOATS, bits_type, width
from .forms import Form, Values
from .runtime import PlainCasts, version

OPERATORS = {
    "ties_to_even": "round_nearest_even",
    "ties_to_away": "round_nearest_afz",
    "toward_positive": "ceil",
    "toward_negative": "floor",
}


class StableHLO(PlainCasts):
    """The interpreter on modules of one operator, between two casts of patterns."""

    dtypes = tuple(FLOATS)
    operators = OPERATORS
    # It loops over elements.
    forms, slow = Form.LENGTH | Form.EMPTY | Form.RANK, True
    # Attributes belong to one context.
    concurrent = False

    def __init__(self, _: str, __: float) -> None:
        self.name = f"stablehlo's interpreter, jaxlib {version(jaxlib)}"
        self._context = mlir.make_ir_context()

    def _rounds(self, dtype: str, rounding: str) -> Callable[[Values], Values]:
        operator = self._operator(dtype, rounding)
        return lambda x: self._evaluated(dtype, dtype, operator, x)

    def _casts(self, how: Cast) -> Callable[[Values], Values]:
        return lambda x: self._evaluated(how.source, how.target, "convert", x)

    def _evaluated(self, source: str, target: str, operator: str, x: Values) -> Values:
        """The results of ``operator``: attributes of integers keep all patterns."""
        sizes = "x".join(map(str, x.shape))
        # The second type of each pair is the integer of its width.
        given, taken = (_tensors(sizes, dtype) for dtype in (source, target))
        text = f"""func.func @main(%x: {given[1]}) -> {taken[1]} {{
            %operand = stablehlo.bitcast_convert %x : ({given[1]}) -> {given[0]}
            %result = stablehlo.{operator} %operand : ({given[0]}) -> {taken[0]}
            %y = stablehlo.bitcast_convert %result : ({taken[0]}) -> {taken[1]}
            func.return %y : {taken[1]}
        }}"""
        with self._context, ir.Location.unknown():
            operand = ir.DenseElementsAttr.get(np.asarray(x, order="C").view(f"<i{x.itemsize}"))
            (result,) = stablehlo.eval_module(ir.Module.parse(text), [operand])
            own = BY_NAME[target].numpy
            return np.array(result).reshape(-1).view(bits_type(target)).view(own).reshape(x.shape)


def _tensors(sizes: str, dtype: str) -> tuple[str, str]:
    """The tensor types of these sizes: of the dtype, and of the integer of its width."""
    separator = "x" if sizes else ""
    kind, _, form = dtype.replace("float", "f").replace("int", "i").partition("_")
    kinds = (kind + form.upper(), f"i{width(dtype)}")
    return (f"tensor<{sizes}{separator}{kinds[0]}>", f"tensor<{sizes}{separator}{kinds[1]}>")
