"""``service:URL``: a tensor-round service, through this package's client."""

from __future__ import annotations

from tensor_round.clients.client import Client
from tensor_round.contract.errors import CannotVerify, TensorRoundError
from tensor_round.contract.rounding import Rounding

from ..reference import ROUNDINGS, WIDTHS
from .forms import ANY, Arrays, Values
from .runtime import Adapter, RoundBits


class Service(Adapter):
    """A service, called with the key in TENSOR_ROUND_API_KEY."""

    dtypes = tuple(WIDTHS)
    roundings = ROUNDINGS
    concurrent = True

    def __init__(self, url: str, timeout: float) -> None:
        self.name = f"service:{url}"
        try:
            self._client = Client(url, timeout=timeout)
        except TensorRoundError as error:
            raise CannotVerify(f"{self.name}: {error.detail}") from error

    def kernel(self, dtype: str, rounding: str) -> RoundBits:
        """The client's ``round``."""

        return self._by_arrays(lambda x: self._rounded(x, rounding), dtype)

    def arrays(self, kernel: RoundBits, dtype: str, rounding: str) -> Arrays:
        """The client's ``round``, of arrays of any form."""
        return Arrays(lambda x: self._rounded(x, rounding), ANY)

    def _rounded(self, x: Values, rounding: str) -> object:
        try:
            return self._client.round(x, Rounding(rounding))
        except TensorRoundError as error:
            raise CannotVerify(f"{self.name}: {error.detail}") from error

    def close(self) -> None:
        """Close the client's connections."""
        self._client.close()
