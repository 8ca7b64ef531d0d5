"""Converters for libraries and frameworks, which are imported when a converter is opened."""

from __future__ import annotations

import abc
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tensor_round.contract.dtypes import BY_NAME
from tensor_round.contract.operators.dialects.openvino import DTYPES as OPENVINO_DTYPES
from tensor_round.contract.operators.operator import name_in

from ..errors import NotTaken
from ..reference import Bits, bits_type
from ..runtimes.onnx_model import cast_model, quantize_model
from ..runtimes.runtime import failures_of, probed, values, version
from .conversion import Cast, Quantization
from .converter import CastBits, Converter, QuantizeBits, plain, results, tensor
from .patterns import Trial


class NumPy(Converter):
    """NumPy's ``astype``, with ml_dtypes' types."""

    def __init__(self, _: str, __: float) -> None:
        import ml_dtypes

        self.name = f"numpy {version(np)}, ml_dtypes {version(ml_dtypes)}"

    def cast(self, how: Cast) -> CastBits:
        """Cast by ``astype``."""
        plain(how)
        target = BY_NAME[how.target].numpy

        def convert(bits: Bits) -> Bits:
            with np.errstate(all="ignore"):
                found = values(bits, how.source).astype(target)
            return results(found, how.target, bits.size, self.name)

        return convert


class Torch(Converter):
    """PyTorch's ``to``, ``quantize_per_tensor`` and ``quantize_per_channel``."""

    def __init__(self, device: str, _: float) -> None:
        from ..runtimes.torch import Torch as Rounds

        self._device = device or "cpu"
        self.name = Rounds(device).name

    def cast(self, how: Cast) -> CastBits:
        """Cast by ``to``."""
        import torch

        plain(how)
        source, target = getattr(torch, how.source), getattr(torch, how.target)
        width = bits_type(how.target).itemsize

        def convert(bits: Bits) -> Bits:
            signed = torch.from_numpy(bits.view(f"<i{bits.dtype.itemsize}").copy())
            with failures_of(self.name, how.source):
                found = signed.view(source).to(self._device).to(target).cpu()
            integers = found.view(getattr(torch, f"int{width * 8}")).numpy()
            patterns: Bits = integers.view(bits_type(how.target))
            return patterns

        return probed(convert, how.source)

    def quantize(self, how: Quantization) -> QuantizeBits:
        """Quantize float32 to int8 or uint8."""
        import torch

        kinds = {"int8": torch.qint8, "uint8": torch.quint8}
        if how.source != "float32" or how.target not in kinds:
            raise NotTaken(f"it does not quantize {how.source} to {how.target}")
        kind = kinds[how.target]

        def convert(trial: Trial) -> Bits:
            x = torch.from_numpy(tensor(trial, how.source))
            scales = values(trial.scales, how.source).astype(np.float64)
            with failures_of(self.name, how.source), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # these functions are deprecated since 2.13
                if how.per_axis:
                    points = torch.from_numpy(trial.zero_points)
                    q = torch.quantize_per_channel(x, torch.from_numpy(scales), points, 0, kind)
                else:
                    point = int(trial.zero_points[0])
                    q = torch.quantize_per_tensor(x, float(scales[0]), point, kind)
                found = q.int_repr().numpy()
            return results(found, how.target, trial.bits.size, self.name)

        return convert


class Jax(Converter):
    """JAX's ``astype``, with 64-bit types enabled."""

    def __init__(self, _: str, __: float) -> None:
        from ..runtimes.jax import Jax as Rounds

        self.name = Rounds("").name

    def cast(self, how: Cast) -> CastBits:
        """Cast by ``astype``."""
        import jax
        import jax.numpy as jnp

        plain(how)
        target = BY_NAME[how.target].numpy

        def convert(bits: Bits) -> Bits:
            with failures_of(self.name, how.source), jax.enable_x64(True):
                found = np.asarray(jnp.asarray(values(bits, how.source)).astype(target))
            return results(found, how.target, bits.size, self.name)

        return probed(convert, how.source)


class _Onnx(Converter, abc.ABC):
    """The base of ONNX's converters: models of one node, Cast or QuantizeLinear."""

    @abc.abstractmethod
    def _running(self, model: bytes) -> Callable[[Mapping[str, Any]], Any]:
        """A function that runs the model on its named inputs."""

    def cast(self, how: Cast) -> CastBits:
        """Cast by a model of Cast-25."""
        if how.rounding != "ties_to_even":
            raise NotTaken(f"ONNX's Cast cannot be asked to round {how.rounding}")
        run = self._running(cast_model(how.source, how.target, saturate=how.saturate))

        def convert(bits: Bits) -> Bits:
            with failures_of(self.name, how.source), np.errstate(all="ignore"):
                found = run({"x": values(bits, how.source)})
            return _raw(found, how.target, bits.size, self.name)

        return probed(convert, how.source)

    def quantize(self, how: Quantization) -> QuantizeBits:
        """Quantize by a model of QuantizeLinear-25; its axis is the first one."""
        run = self._running(quantize_model(how.source, how.target, per_axis=how.per_axis))
        points = BY_NAME[how.target].numpy

        def convert(trial: Trial) -> Bits:
            shape = (trial.scales.size,) if how.per_axis else ()
            given = {
                "x": tensor(trial, how.source),
                "scale": values(trial.scales, how.source).reshape(shape),
                "zero_point": trial.zero_points.astype(points).reshape(shape),
            }
            with failures_of(self.name, how.source), np.errstate(all="ignore"):
                found = run(given)
            return results(found, how.target, trial.bits.size, self.name)

        return convert


class OnnxRuntime(_Onnx):
    """ONNX Runtime, on one provider."""

    def __init__(self, provider: str, _: float) -> None:
        from ..runtimes.onnx import OnnxRuntime as Rounds

        rounds = Rounds(provider)
        self.name, self._session = rounds.name, rounds.session

    def _running(self, model: bytes) -> Callable[[Mapping[str, Any]], Any]:
        session = self._session(model)
        return lambda given: session.run(None, given)[0]


class OnnxReference(_Onnx):
    """The reference evaluator of the onnx package."""

    def __init__(self, _: str, __: float) -> None:
        from ..runtimes.onnx import OnnxReference as Rounds

        self.name = Rounds("").name

    def _running(self, model: bytes) -> Callable[[Mapping[str, Any]], Any]:
        import onnx
        from onnx.reference import ReferenceEvaluator

        evaluator = ReferenceEvaluator(onnx.load_model_from_string(model))
        return lambda given: evaluator.run(None, dict(given))[0]


class OpenVINO(Converter):
    """OpenVINO's Convert."""

    def __init__(self, device: str, _: float) -> None:
        from ..runtimes.openvino import OpenVINO as Rounds

        self._rounds = Rounds(device)
        self.name = self._rounds.name

    def cast(self, how: Cast) -> CastBits:
        """Cast by an infer request of Convert-1."""
        plain(how)
        target = name_in(OPENVINO_DTYPES, how.target)
        return self._rounds.compiled(how.source, how.target, lambda ops, x: ops.convert(x, target))


def _raw(found: Any, target: str, count: int, who: str) -> Bits:
    """The patterns of results; ONNX Runtime returns 8-bit floats as unsigned integers."""
    own = bits_type(target)
    if isinstance(found, np.ndarray) and found.dtype == own:
        found = found.view(BY_NAME[target].numpy)
    return results(found, target, count, who)
