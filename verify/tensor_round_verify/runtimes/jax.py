"""``jax``: XLA on JAX's default device."""

from __future__ import annotations

import numpy as np

from ..errors import NotTaken
from ..reference import FLOATS, ROUNDINGS, Bits
from .runtime import RoundBits, failures_of, patterns, probed, values, version


class Jax:
    """JAX: ``lax.round`` in both its methods, ``trunc``, ``ceil`` and ``floor``."""

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
        """The function, with 64-bit types enabled; raises :class:`NotTaken` for integers."""
        import jax
        import jax.numpy as jnp

        if dtype not in FLOATS:
            raise NotTaken(f"it rounds floats alone, not {dtype}")
        function = self._functions[rounding]

        def kernel(bits: Bits) -> Bits:
            with failures_of(self.name, dtype), jax.enable_x64(True):
                result = np.asarray(function(jnp.asarray(values(bits, dtype))))
            return patterns(result, bits, dtype, self.name)

        return probed(kernel, dtype)

    def close(self) -> None:
        """Do nothing."""
