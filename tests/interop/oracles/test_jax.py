"""JAX (XLA on the CPU): every direction, every float type."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from support.cases.oracle_ledger import Ledger
from tensor_round.contract.dtypes import BY_NAME
from tensor_round_verify.reference import FLOATS, Bits, Flags

OPERATORS: dict[str, Callable[[jax.Array], jax.Array]] = {
    "ties_to_even": lambda x: lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN),
    "ties_to_away": lambda x: lax.round(x, lax.RoundingMethod.AWAY_FROM_ZERO),
    "toward_zero": jnp.trunc,
    "toward_positive": lax.ceil,
    "toward_negative": lax.floor,
}


def flushed(dtype: str, rounding: str, patterns: Bits) -> Flags:
    """The subnormals that should become 1 or -1, and become 0: XLA takes them for zeros.

    float16 and the 8-bit types are rounded in float32, where theirs are ordinary numbers.
    """
    fmt = FLOATS[dtype]
    sign = {"toward_positive": 0, "toward_negative": fmt.sign_bit}.get(rounding)
    if sign is None or dtype not in ("bfloat16", "float32", "float64"):
        return np.zeros(patterns.shape, np.bool_)
    least_normal = 1 << fmt.fraction_bits
    return (patterns > sign) & (patterns < sign + least_normal)


@pytest.mark.parametrize("rounding", OPERATORS)
@pytest.mark.parametrize("dtype", FLOATS)
def test_jax(ledger: Ledger, dtype: str, rounding: str) -> None:
    def ask(patterns: Bits) -> Bits:
        given = jnp.asarray(patterns.view(BY_NAME[dtype].numpy))
        assert given.dtype == BY_NAME[dtype].numpy
        return np.asarray(OPERATORS[rounding](given)).view(patterns.dtype)

    with jax.enable_x64(True):
        ledger.compare("JAX", dtype, rounding, ask, wrong=partial(flushed, dtype, rounding))
