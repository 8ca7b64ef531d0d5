"""``stablehlo``: StableHLO's reference interpreter, which the jaxlib wheel contains."""

from __future__ import annotations

import numpy as np

from tensor_round.contract.dtypes import BY_NAME
from tensor_round.contract.operators.dialects.stablehlo import DTYPES
from tensor_round.contract.operators.operator import name_in

from ..conversions.conversion import Cast
from ..reference import FLOATS, WIDTHS, Bits, bits_type
from .forms import Arrays, Form, Values
from .runtime import Adapter, NotTaken, RoundBits, plain, probed, version

OPERATORS = {
    "ties_to_even": "round_nearest_even",
    "ties_to_away": "round_nearest_afz",
    "toward_positive": "ceil",
    "toward_negative": "floor",
}


class StableHLO(Adapter):
    """The interpreter on modules of one operator, between two casts of patterns."""

    dtypes = tuple(FLOATS)
    roundings = tuple(OPERATORS)
    # Attributes belong to one context.
    concurrent = False

    def __init__(self, _: str) -> None:
        from jax.interpreters import mlir
        from jaxlib import version as jaxlib_version

        self.name = f"stablehlo's interpreter, jaxlib {version(jaxlib_version)}"
        self._context = mlir.make_ir_context()

    def kernel(self, dtype: str, rounding: str) -> RoundBits:
        """The operator; raises :class:`NotTaken` for integers, and for toward_zero."""
        return self._evaluating(dtype, dtype, _operator(dtype, rounding))

    def arrays(self, kernel: RoundBits, dtype: str, rounding: str) -> Arrays:
        """Tensors of several dimensions too; it loops over elements, so few are tried."""
        operator, own = _operator(dtype, rounding), BY_NAME[dtype].numpy

        def rounds(x: Values) -> object:
            bits = np.ascontiguousarray(x).reshape(-1).view(bits_type(dtype))
            found = self._evaluate(dtype, dtype, operator, bits, x.shape)
            return found.view(own).reshape(x.shape)

        return Arrays(rounds, Form.LENGTH | Form.EMPTY | Form.RANK, slow=True)

    def cast(self, how: Cast) -> RoundBits:
        """Cast by ``convert``."""
        plain(how)
        return self._evaluating(how.source, how.target, "convert")

    def _evaluating(self, source: str, target: str, operator: str) -> RoundBits:
        return probed(
            lambda bits: self._evaluate(source, target, operator, bits, bits.shape), source
        )

    def _evaluate(
        self, source: str, target: str, operator: str, bits: Bits, shape: tuple[int, ...]
    ) -> Bits:
        """The patterns of ``operator``'s results: attributes of integers keep all of them."""
        from jaxlib.mlir import ir
        from jaxlib.mlir.dialects import stablehlo

        sizes = "x".join(map(str, shape))
        # The second type of each pair is the integer of its width.
        given, taken = (_tensors(sizes, dtype) for dtype in (source, target))
        text = f"""func.func @main(%x: {given[1]}) -> {taken[1]} {{
            %operand = stablehlo.bitcast_convert %x : ({given[1]}) -> {given[0]}
            %result = stablehlo.{operator} %operand : ({given[0]}) -> {taken[0]}
            %y = stablehlo.bitcast_convert %result : ({taken[0]}) -> {taken[1]}
            func.return %y : {taken[1]}
        }}"""
        with self._failures_of(source), self._context, ir.Location.unknown():
            signed = bits.view(f"<i{bits.dtype.itemsize}")
            operand = ir.DenseElementsAttr.get(signed.reshape(shape))
            (result,) = stablehlo.eval_module(ir.Module.parse(text), [operand])
            return np.array(result).reshape(-1).view(bits_type(target))


def _operator(dtype: str, rounding: str) -> str:
    if dtype not in FLOATS or rounding not in OPERATORS:
        raise NotTaken(f"it has no operator for {dtype} {rounding}")
    return OPERATORS[rounding]


def _tensors(sizes: str, dtype: str) -> tuple[str, str]:
    """The tensor types of these sizes: of the dtype, and of the integer of its width."""
    separator = "x" if sizes else ""
    kinds = (name_in(DTYPES, dtype), f"i{WIDTHS[dtype]}")
    return f"tensor<{sizes}{separator}{kinds[0]}>", f"tensor<{sizes}{separator}{kinds[1]}>"
