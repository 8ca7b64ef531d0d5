"""``service:URL``: a tensor-round service, through this package's client."""

from __future__ import annotations

from collections.abc import Callable

from tensor_round.clients.client import Client
from tensor_round.contract.errors import CannotVerify, TensorRoundError
from tensor_round.contract.rounding import Rounding

from ..reference import ROUNDINGS, WIDTHS
from .forms import Values
from .runtime import Adapter


class Service(Adapter):
    """A service, called with the key in TENSOR_ROUND_API_KEY."""

    dtypes = tuple(WIDTHS)
    roundings = ROUNDINGS
    concurrent = True
    probed = False

    def __init__(self, url: str, timeout: float) -> None:
        self.name = f"service:{url}"
        try:
            self._client = Client(url, timeout=timeout)
        except TensorRoundError as error:
            raise CannotVerify(f"{self.name}: {error.detail}") from error

    def _rounds(self, dtype: str, rounding: str) -> Callable[[Values], object]:
        def rounds(x: Values) -> object:
            try:
                return self._client.round(x, Rounding(rounding))
            except TensorRoundError as error:
                raise CannotVerify(f"{self.name}: {error.detail}") from error

        return rounds

    def close(self) -> None:
        """Close the client's connections."""
        self._client.close()
