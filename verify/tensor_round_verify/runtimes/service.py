"""``service:URL``: a tensor-round service, through this package's client."""

from __future__ import annotations

from collections.abc import Callable

from tensor_round.clients.client import Client
from tensor_round.contract.dtypes import BY_NAME
from tensor_round.contract.errors import CannotVerify, TensorRoundError
from tensor_round.contract.operators.onnx_types import DTYPES, NEWEST_OPSET
from tensor_round.contract.operators.operator import name_in
from tensor_round.contract.rounding import Rounding

from ..conversions.conversion import Cast, FakeQuantization, Linear, Quantization
from ..conversions.patterns import Trial
from ..reference import ROUNDINGS, WIDTHS
from .forms import Values
from .model_tensors import Tensor
from .runtime import Adapter, QuantizeBits, RoundBits, T


class Service(Adapter):
    """A service, called with the key in TENSOR_ROUND_API_KEY."""

    dtypes = tuple(WIDTHS)
    roundings = ROUNDINGS
    concurrent = True
    mixes_types = True
    linear_operators = ("quantize_linear", "dequantize_linear", "fake_quantize")
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

    def _faking(self, how: FakeQuantization) -> QuantizeBits:
        """The client's, by ONNX's rules."""
        through = BY_NAME[how.codes].numpy

        def fake(trial: Trial) -> object:
            x, scale, point = how.arrays(trial)
            options = how.options(trial)
            axis, block_size = options.get("axis"), options.get("block_size")
            return self._client.fake_quantize(
                x, scale, point, through=through, axis=axis, block_size=block_size
            )

        return self._by_trials(self._calling(fake), how)

    def _linear(self, how: Linear) -> QuantizeBits:
        """ONNX's QuantizeLinear and DequantizeLinear."""
        if isinstance(how, FakeQuantization):
            return self._faking(how)
        side, operator = "x", "DequantizeLinear"
        options: dict[str, object] = {"output_dtype": name_in(DTYPES, how.target)}
        if isinstance(how, Quantization):
            side, operator = "y", "QuantizeLinear"
            options = {"saturate": int(how.saturate)}
            if how.precision:
                options["precision"] = name_in(DTYPES, how.precision)
        names = ("input", f"{side}_scale", f"{side}_zero_point")

        def convert(trial: Trial) -> Values:
            tensors = [Tensor.of(array) for array in how.arrays(trial)]
            document: dict[str, object] = {
                "dialect": "onnx",
                "op_type": operator,
                "opset_version": NEWEST_OPSET,
                **options,
                **how.options(trial),
                **{
                    name: {"elem_type": name_in(DTYPES, tensor.dtype), "shape": [*tensor.shape]}
                    for name, tensor in zip(names, tensors, strict=True)
                },
            }
            body = b"".join(tensor.packed.tobytes() for tensor in tensors)
            found = self._client.execute(document, body)
            return Tensor.of_bytes(how.target, tensors[0].shape, found.data).array()

        return self._by_trials(self._calling(convert), how)

    def _calling(self, call: Callable[[T], object]) -> Callable[[T], object]:
        def called(x: T) -> object:
            try:
                return call(x)
            except TensorRoundError as error:
                raise CannotVerify(f"{self.name}: {error.detail}") from error

        return called

    def close(self) -> None:
        """Close the client's connections."""
        self._client.close()
