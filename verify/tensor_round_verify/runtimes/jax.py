"""``jax``: XLA on JAX's default device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tensor_round.contract.dtypes import BY_NAME

from ..conversions.conversion import Cast
from ..reference import FLOATS, ROUNDINGS
from .runtime import Adapter, RoundBits, plain, version


class Jax(Adapter):
    """JAX: ``lax.round`` in both its methods, ``trunc``, ``ceil`` and ``floor``; ``astype``."""

    dtypes = tuple(FLOATS)
    roundings = ROUNDINGS
    concurrent = True
    # It compiles each shape.
    slow = True

    def __init__(self, _: str, __: float) -> None:
        import jax
        import jax.numpy as jnp
        from jax import lax

        self.name = f"jax {version(jax)}, {jax.devices()[0].platform}"
        even, away = lax.RoundingMethod.TO_NEAREST_EVEN, lax.RoundingMethod.AWAY_FROM_ZERO
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

    def cast(self, how: Cast) -> RoundBits:
        """Cast by ``astype``."""
        plain(how)
        target = BY_NAME[how.target].numpy
        return self._casting(self._run(lambda x: x.astype(target)), how)

    def _run(self, function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """The function of NumPy's arrays, with 64-bit types enabled."""
        import jax

        def run(x: Any) -> Any:
            with jax.enable_x64(True):
                # jnp.asarray would compile a program for each shape.
                return np.asarray(function(jax.device_put(x)))

        return run
