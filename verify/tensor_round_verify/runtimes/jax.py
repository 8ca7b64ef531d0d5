"""``jax``: XLA on JAX's default device."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from tensor_round.contract.dtypes import BY_NAME

from ..conversions.conversion import Cast
from ..reference import FLOATS, ROUNDINGS
from .forms import Arrays
from .runtime import Adapter, NotTaken, RoundBits, plain, probed, version


class Jax(Adapter):
    """JAX: ``lax.round`` in both its methods, ``trunc``, ``ceil`` and ``floor``; ``astype``."""

    dtypes = tuple(FLOATS)
    roundings = ROUNDINGS
    concurrent = True

    def __init__(self, _: str) -> None:
        import jax
        import jax.numpy as jnp
        from jax import lax

        self.name = f"jax {version(jax)}, {jax.devices()[0].platform}"
        even, away = lax.RoundingMethod.TO_NEAREST_EVEN, lax.RoundingMethod.AWAY_FROM_ZERO
        self._functions = {
            "ties_to_even": lambda x: lax.round(x, even),
            "ties_to_away": lambda x: lax.round(x, away),
            "toward_zero": jnp.trunc,
            "toward_positive": lax.ceil,
            "toward_negative": lax.floor,
        }

    def kernel(self, dtype: str, rounding: str) -> RoundBits:
        """The function; raises :class:`NotTaken` for integers."""
        if dtype not in FLOATS:
            raise NotTaken(f"it rounds floats alone, not {dtype}")
        return self._running(self._functions[rounding], dtype)

    def arrays(self, kernel: RoundBits, dtype: str, rounding: str) -> Arrays:
        """The function, of arrays of any form; each new shape is compiled."""
        arrays = self._arrays_by(self._run(self._functions[rounding]), dtype)
        return replace(arrays, slow=True)

    def cast(self, how: Cast) -> RoundBits:
        """Cast by ``astype``."""
        plain(how)
        target = BY_NAME[how.target].numpy
        return self._running(lambda x: x.astype(target), how.source, how.target)

    # JAX's arrays have annotations that this package cannot see.
    def _running(self, function: Callable[[Any], Any], source: str, target: str = "") -> RoundBits:
        """A kernel by a function of JAX's arrays."""
        return probed(self._by_arrays(self._run(function), source, target), source)

    def _run(self, function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """The function of NumPy's arrays, with 64-bit types enabled."""
        import jax
        import jax.numpy as jnp

        def run(x: Any) -> Any:
            with jax.enable_x64(True):
                return np.asarray(function(jnp.asarray(x)))

        return run
