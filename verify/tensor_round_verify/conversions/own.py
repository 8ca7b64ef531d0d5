"""Converters for a user's own code: ``python:module:function`` and ``cmd:PROGRAM``."""

from __future__ import annotations

from collections.abc import Mapping

from tensor_round.contract.dtypes import BY_NAME

from ..errors import NotTaken
from ..reference import Bits, bits_type
from ..runtimes.command import Program
from ..runtimes.function import PythonFunction, parameters
from ..runtimes.runtime import values
from .conversion import Cast, Quantization
from .converter import CastBits, Converter, QuantizeBits, results, tensor
from .patterns import Trial


class Function(Converter):
    """A function: ``(x, dtype)`` for casts, ``(x, scale, zero_point)`` for quantizations.

    It may have further parameters: ``rounding``, ``saturate`` and ``axis``. Without them it must
    round ties to even and saturate types of 8 bits, and is not verified per axis.
    """

    def __init__(self, function: PythonFunction) -> None:
        self.name = function.name
        self._function = function
        self._takes = parameters(function.function)

    def cast(self, how: Cast) -> CastBits:
        """Call the function, with rounding and saturation if it has these parameters."""
        asked = {"rounding": how.rounding, "saturate": how.saturate}
        more = {name: value for name, value in asked.items() if name in self._takes}
        saturates = BY_NAME[how.target].itemsize == 1
        if "rounding" not in more and how.rounding != "ties_to_even":
            raise NotTaken("it has no parameter rounding")
        if "saturate" not in more and how.saturate != saturates:
            raise NotTaken("it has no parameter saturate")

        def convert(bits: Bits) -> Bits:
            x, target = values(bits, how.source), BY_NAME[how.target].numpy
            found = self._function.called(how.source, x, target, **more)
            return results(found, how.target, bits.size, self.name)

        return convert

    def quantize(self, how: Quantization) -> QuantizeBits:
        """Call the function; scale and zero point are arrays, 1-d per axis, else 0-d."""
        if how.per_axis and "axis" not in self._takes:
            raise NotTaken("it has no parameter axis")
        more = {"axis": 0} if how.per_axis else {}

        def convert(trial: Trial) -> Bits:
            shape = (trial.scales.size,) if how.per_axis else ()
            scale = values(trial.scales, how.source).reshape(shape)
            point = trial.zero_points.astype(BY_NAME[how.target].numpy).reshape(shape)
            x = tensor(trial, how.source)
            found = self._function.called(how.source, x, scale, point, **more)
            return results(found, how.target, trial.bits.size, self.name)

        return convert


class Command(Converter):
    """A program; placeholders in its command line, such as ``{source}``, are replaced by values."""

    def __init__(self, text: str, timeout: float) -> None:
        self._program = Program(text, timeout)
        self.name, self._text = self._program.name, text

    def cast(self, how: Cast) -> CastBits:
        """Run the program, which reads elements of the source type and writes the target's."""
        saturates = BY_NAME[how.target].itemsize == 1
        told = {
            "source": (how.source, "float32"),
            "target": (how.target, None),
            "rounding": (how.rounding, "ties_to_even"),
            "saturate": (str(how.saturate).lower(), str(saturates).lower()),
        }
        words = self._filled(told)
        return lambda bits: self._program.run(words, bits, how.source, bits_type(how.target))

    def quantize(self, how: Quantization) -> QuantizeBits:
        """Run the program with the tensor's scale and zero point in its command line."""
        if how.per_axis:
            raise NotTaken("a program has no axis here")

        def convert(trial: Trial) -> Bits:
            scale = float(values(trial.scales, how.source)[0])
            told = {
                "source": (how.source, "float32"),
                "target": (how.target, None),
                "scale": (repr(scale), None),
                "zero_point": (str(trial.zero_points[0]), "0"),
            }
            words = self._filled(told)
            return self._program.run(words, trial.bits, how.source, bits_type(how.target))

        return convert

    def _filled(self, told: Mapping[str, tuple[str, str | None]]) -> list[str]:
        words = self._program.words
        for name, (value, default) in told.items():
            if f"{{{name}}}" not in self._text and value != default:
                raise NotTaken(f"its command line does not name {{{name}}}")
            words = [word.replace(f"{{{name}}}", value) for word in words]
        return words
