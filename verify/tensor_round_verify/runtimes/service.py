"""``service:URL``: a tensor-round service, through this package's client."""

from __future__ import annotations

from collections.abc import Callable

from tensor_round.clients.client import Client
from tensor_round.contract.dtypes import BY_NAME
from tensor_round.contract.errors import CannotVerify, TensorRoundError
from tensor_round.contract.rounding import Rounding

from ..conversions.conversion import Cast
from ..reference import ROUNDINGS, WIDTHS
from .forms import Values
from .runtime import Adapter, RoundBits


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
        return self._calling(lambda x: self._client.round(x, Rounding(rounding)))

    def cast(self, how: Cast) -> RoundBits:
        """The conversion of IEEE 754."""
        to, rounding = BY_NAME[how.target].numpy, Rounding(how.rounding)

        def cast(x: Values) -> object:
            return self._client.cast(x, to, rounding=rounding, saturate=how.saturate)

        return self._casting(self._calling(cast), how)

    def _calling(self, call: Callable[[Values], object]) -> Callable[[Values], object]:
        def called(x: Values) -> object:
            try:
                return call(x)
            except TensorRoundError as error:
                raise CannotVerify(f"{self.name}: {error.detail}") from error

        return called

    def close(self) -> None:
        """Close the client's connections."""
        self._client.close()
