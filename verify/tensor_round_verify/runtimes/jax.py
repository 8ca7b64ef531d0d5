"""``jax``: XLA on JAX's default device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from tensor_round.contract.dtypes import BY_NAME

from ..conversions.conversion import Cast
from ..reference import FLOATS, ROUNDINGS
from .forms import Arrays, Shape, Values
from .runtime import Adapter, RoundBits, plain, version


class Jax(Adapter):
    """JAX: ``lax.round`` in both its methods, ``trunc``, ``ceil`` and ``floor``; ``astype``."""

    dtypes = tuple(FLOATS)
    roundings = ROUNDINGS
    concurrent = True
    # Every shape is compiled.
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

    def arrays(self, kernel: RoundBits, dtype: str, rounding: str) -> Arrays:
        """The function; shapes that are told ahead are compiled as one program, in a third."""
        function = self._operator(dtype, rounding)
        alone: Callable[[Values], Values] = self._run(function)
        compiled: dict[Shape, Callable[[Values], Values]] = {}

        def prepare(shapes: Sequence[Shape]) -> None:
            with self._failures_of(dtype):
                compiled.update(_together(function, BY_NAME[dtype].numpy, shapes))

        arrays = self._arrays_by(lambda x: compiled.get(x.shape, alone)(x), dtype)
        return replace(arrays, prepare=prepare)

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


def _together(
    function: Callable[[Any], Any], dtype: np.dtype[Any], shapes: Sequence[Shape]
) -> dict[Shape, Callable[[Values], Values]]:
    """The function of arrays of each shape, by one program; its other operands are zeros."""
    import jax

    with jax.enable_x64(True):
        zeros = [jax.device_put(np.zeros(shape, dtype)) for shape in shapes]
        program = jax.jit(lambda *all_: tuple(map(function, all_))).lower(*zeros).compile()

    def run(place: int, x: Values) -> Values:
        with jax.enable_x64(True):
            given = [*zeros[:place], jax.device_put(x), *zeros[place + 1 :]]
            return np.asarray(program(*given)[place])

    return {shape: partial(run, place) for place, shape in enumerate(shapes)}
