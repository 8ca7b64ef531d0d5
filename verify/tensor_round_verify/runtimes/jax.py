"""``jax``: XLA on JAX's default device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tensor_round.contract.dtypes import BY_NAME

from ..conversions.conversion import Cast
from ..reference import FLOATS
from .runtime import PlainCasts, version


class Jax(PlainCasts):
    """JAX: ``lax.round`` in both its methods, ``trunc``, ``ceil`` and ``floor``; ``astype``."""

    dtypes = tuple(FLOATS)
    concurrent = True
    # It compiles each shape.
    slow = True

    def __init__(self, _: str, __: float) -> None:
        self.name = f"jax {version(jax)}, {jax.devices()[0].platform}"
        even, away = (lax.RoundingMethod.TO_NEAREST_EVEN, lax.RoundingMethod.AWAY_FROM_ZERO)
        self.operators = {
            "ties_to_even": lambda x: lax.round(x, even),
            "ties_to_away": lambda x: lax.round(x, away),
            "toward_zero": jnp.trunc,
            "toward_positive": lax.ceil,
            "toward_negative": lax.floor,
        }

    # JAX's arrays have annotations that this package cannot see.
    def _rounds(self, dtype: str, rounding: str) -> Callable[[Any], Any]:
        return self._run(self._operator(dtype, rounding))

    def _casts(self, how: Cast) -> Callable[[Any], Any]:
        target = BY_NAME[how.target].numpy
        return self._run(lambda x: x.astype(target))

    def _run(self, function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """The function of NumPy's arrays, with 64-bit types enabled."""

        def run(x: Any) -> Any:
            with jax.enable_x64(True):
                # jnp.asarray would compile a program for each shape.
                return np.asarray(function(jax.device_put(x)))

        return run
