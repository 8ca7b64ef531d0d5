"""A runtime that can be verified: its interface, and what the implementations share."""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import metadata
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any, TypeVar

import numpy as np

from tensor_round.contract.dtypes import BY_NAME
from tensor_round.contract.errors import CannotVerify

from ..conversions.blocks.formats import BlockFormat
from ..conversions.blocks.quantization import BlockDequantization, BlockQuantization, Blocks
from ..conversions.conversion import Cast, Linear
from ..conversions.deviation import AnyHow
from ..conversions.patterns import Trial
from ..deadlines import Worker
from ..patterns import aligned
from ..reference import Bits, bits_type
from .forms import ANY, Arrays, Values
from .model_tensors import Array, Tensor

T = TypeVar("T")
#: Quantizes an array into blocks; the other decodes them.
QuantizeBlocks = Callable[[Values], Blocks]
DequantizeBlocks = Callable[[Blocks], Bits]
#: The outputs of a model, by its inputs and their names.
RunsModel = Callable[[Mapping[str, Array], Sequence[str]], dict[str, Tensor]]


@dataclass(frozen=True, slots=True)
class RoundBits:
    """Rounds patterns of one dtype in one direction, or casts them; ``arrays`` have any form."""

    arrays: Arrays
    source: str
    target: str
    who: str

    def __call__(self, bits: Bits) -> Bits:
        """The patterns of the results, of one dimension as the operands."""
        found = self.arrays.call(values(bits, self.source))
        return patterns(found, bits.shape, self.target, self.who)


@dataclass(frozen=True, slots=True)
class QuantizeBits:
    """Quantizes one tensor, or dequantizes it; ``call`` returns what the runtime returned."""

    call: Callable[[Trial], object]
    converted: Callable[[object, int], Bits]

    def __call__(self, trial: Trial) -> Bits:
        """The patterns of the results in C order."""
        return self.converted(self.call(trial), trial.bits.size)


class TimedOut(CannotVerify):
    """The runtime was not done in time: it is not called again."""


class NotSupported(CannotVerify):
    """The runtime does not support this dtype or direction."""


class NotLoaded(CannotVerify):
    """The runtime cannot load a model."""


class Runtime:
    """The base of the runtimes of this package: it has no operator.

    Each method that returns a function raises :class:`NotSupported` for what the runtime lacks.
    """

    #: The name, with version and device.
    name: str
    #: Whether several threads may call its kernels at the same time.
    concurrent: bool
    #: The forms of arrays that it takes, and whether its calls are slow.
    forms = ANY
    slow = False
    #: Whether the types of its scales and quotients are others than those of its numbers.
    mixes_types = False
    #: The operators of linear quantization that it has.
    linear_operators: tuple[str, ...] = ()
    #: Whether it runs models, and the name by which a process opens it to do so.
    runs_models = False
    opened_as = ""
    #: Its options under which it neither fuses nodes nor narrows types, by their own names.
    strict_options = ""

    @property
    def converts_by(self) -> str:
        """Its name in reports on conversions, with a further library that they need."""
        return self.name

    @cached_property
    def worker(self) -> Worker:
        """The thread of all its calls, if several may not call it."""
        return Worker()

    def close(self) -> None:
        """End its thread."""
        self.worker.close()

    def cast(self, how: Cast) -> RoundBits:
        """The function that does this cast."""
        raise _lacking(how)

    def linear(self, how: Linear) -> QuantizeBits:
        """The function that quantizes, or back, by each tensor's scales and zero points."""
        if how.operator not in self.linear_operators:
            raise _lacking(how)
        return self._linear(how)

    def _linear(self, how: Linear) -> QuantizeBits:
        """That of one of the ``linear_operators``."""
        raise _lacking(how)

    def block_quantize(self, how: BlockQuantization) -> QuantizeBlocks:
        """The function that quantizes arrays, whose last dimension has blocks."""
        raise _lacking(how)

    def block_dequantize(self, how: BlockDequantization) -> DequantizeBlocks:
        """The function that decodes scales and elements, as patterns of the target type."""
        raise _lacking(how)

    def _in_turn(self, call: Callable[[], T]) -> T:
        """What a call returns, if several threads may not call it from its own thread."""
        return call() if self.concurrent else self.worker.within(None, call)

    def _called_with(self, function: Callable[[T], object], x: T, dtype: str) -> object:
        """What a function of the runtime returns; raises :class:`CannotVerify`."""

        def call() -> object:
            with np.errstate(all="ignore"):  # of this thread
                return function(x)

        with self._failures_of(dtype):
            return self._in_turn(call)

    def _kernel(self, function: Callable[[Values], object], source: str, target: str) -> RoundBits:
        """A kernel that calls a function of NumPy arrays."""

        def call(x: Values) -> object:
            return self._called_with(function, x, source)

        return RoundBits(Arrays(call, self.forms, self.slow), source, target, self.name)

    def _casting(self, function: Callable[[Values], object], how: Cast) -> RoundBits:
        """A cast by a function of NumPy arrays, if it casts one element."""
        return probed(self._kernel(function, how.source, how.target))

    def _by_trials(self, function: Callable[[Trial], object], how: Linear) -> QuantizeBits:
        """A function that quantizes by one that returns a NumPy array."""

        def call(trial: Trial) -> object:
            return self._called_with(function, trial, how.source)

        return QuantizeBits(call, lambda found, size: self._converted(found, how.target, size))

    def _blocks(self, result: object, fmt: BlockFormat, shape: tuple[int, ...]) -> Blocks:
        """The codes of scales and elements, of which two may share a byte.

        Raises :class:`CannotVerify` for other shapes.
        """
        if not isinstance(result, tuple) or len(result) != 2:
            raise CannotVerify(f"{self.name} returned no pair of scales and codes")
        scales, codes = (np.ascontiguousarray(part) for part in result)
        *rows, columns = shape
        expected = (*rows, -(-columns // fmt.size))
        if scales.shape != expected or scales.itemsize != 1:
            told = f"scales {scales.dtype} of shape {scales.shape}"
            raise CannotVerify(f"{self.name} returned {told}, not bytes of shape {expected}")
        if fmt.bits == 4 and codes.shape == (*rows, -(-columns // 2)):
            low = codes.view(np.uint8)
            codes = np.stack([low & 15, low >> 4], -1).reshape(*rows, -1)[..., :columns]
        if codes.shape != shape or codes.itemsize != 1:
            told = f"codes {codes.dtype} of shape {codes.shape}"
            raise CannotVerify(f"{self.name} returned {told} for {fmt.name} of shape {shape}")
        return scales.view(np.uint8), codes.view(np.uint8)

    def _converted(self, found: object, target: str, count: int) -> Bits:
        """The patterns of ``count`` converted elements; raises :class:`CannotVerify` for others."""
        flat = found.reshape(-1) if isinstance(found, np.ndarray) else found
        return patterns(flat, (count,), target, self.converts_by)

    @contextmanager
    def _failures_of(self, dtype: str) -> Iterator[None]:
        """Raise :class:`CannotVerify` for any error of the runtime.

        Runtimes raise errors of any class, and few document them.
        """
        try:
            yield
        except CannotVerify:
            raise
        except Exception as error:  # of any class: it is no result of rounding
            raise self._failed(dtype, error) from error

    @contextmanager
    def _loading(self) -> Iterator[None]:
        """Raise :class:`NotLoaded` for any error of the runtime while it loads a model."""
        try:
            yield
        except Exception as error:  # of many classes, which packages do not publish
            reason = self._told(error)
            raise NotLoaded(f"{self.name} cannot load the model: {reason}", reason) from error

    def _failed(self, dtype: str, error: BaseException) -> CannotVerify:
        """The error to raise for an error of the runtime."""
        reason = self._told(error)
        return CannotVerify(f"{self.name} failed on {dtype}: {reason}", reason)

    def _told(self, error: BaseException) -> str:
        """The text of an error."""
        return first_line(error)


#: The names that most libraries give their functions.
FUNCTIONS = {
    "ties_to_even": "round",
    "toward_zero": "trunc",
    "toward_positive": "ceil",
    "toward_negative": "floor",
}


class Adapter(Runtime, abc.ABC):
    """The base of those that round."""

    dtypes: tuple[str, ...]
    assumed = ""
    #: The runtime's own operator for each direction, if it has one for each.
    operators: Mapping[str, Any] = MappingProxyType({})
    #: Whether an error for a single zero means that it does not support the dtype.
    probed = True

    @cached_property
    def roundings(self) -> tuple[str, ...]:
        """The directions that it has operators for."""
        return tuple(self.operators)

    def kernel(self, dtype: str, rounding: str) -> RoundBits:
        """The function that rounds one dtype in one direction."""
        kernel = self._kernel(self._rounds(dtype, rounding), dtype, dtype)
        return probed(kernel) if self.probed else kernel

    @abc.abstractmethod
    def _rounds(self, dtype: str, rounding: str) -> Callable[..., object]:
        """The function of arrays of any of the ``forms``."""

    def _operator(self, dtype: str, rounding: str) -> Any:
        """The runtime's operator for dtype and direction."""
        if dtype not in self.dtypes or rounding not in self.operators:
            raise NotSupported(f"it has no operator for {dtype} {rounding}")
        return self.operators[rounding]


class PlainCasts(Adapter):
    """The base of those whose casts round as most do, and do not saturate."""

    def cast(self, how: Cast) -> RoundBits:
        """The runtime's own cast."""
        if how.rounding != how.usual or how.saturate:
            asked = "saturate" if how.saturate else f"round {how.rounding}"
            raise NotSupported(f"its casts cannot be asked to {asked}")
        return self._casting(self._casts(how), how)

    @abc.abstractmethod
    def _casts(self, how: Cast) -> Callable[..., object]:
        """The function of arrays of any of the ``forms``."""


class RunsOnnx(Runtime, abc.ABC):
    """The base of those that run ONNX models."""

    runs_models = True

    def run_onnx(
        self,
        model: bytes | Path,
        given: Mapping[str, Array],
        names: Sequence[str],
        *,
        strict: bool = False,
    ) -> dict[str, Tensor]:
        """The outputs ``names`` of a model for these inputs, by the runtime's defaults.

        ``strict`` sets the runtime's strict options. Raises :class:`NotLoaded` if it cannot load
        the model, and :class:`CannotVerify` if it fails.
        """
        with self._loading():
            run = self._loaded(model, strict=strict)
        with self._failures_of("the model"):
            return run(given, names)

    @abc.abstractmethod
    def _loaded(self, model: bytes | Path, *, strict: bool = False) -> RunsModel:
        """The function that runs a model; raises errors of any class."""


# What runtimes' functions return has no annotations.
def by_rank(made: Callable[[int], Callable[[Values], Any]]) -> Callable[[Values], Any]:
    """The function of arrays that is made once for each number of dimensions."""
    of_rank = cache(made)
    return lambda x: of_rank(x.ndim)(x)


def values(bits: Bits, dtype: str) -> Values:
    """A new array of the dtype, with these patterns, in aligned memory."""
    return aligned(bits).view(BY_NAME[dtype].numpy)


def patterns(result: object, shape: tuple[int, ...], dtype: str, who: str) -> Bits:
    """The patterns of a result; raises :class:`CannotVerify` for another dtype or shape."""
    if isinstance(result, np.generic) and not shape:
        result = np.asarray(result)  # NumPy's functions turn an array without dimensions into this
    if not isinstance(result, np.ndarray):
        kind = "None" if result is None else f"a {type(result).__name__}"
        raise CannotVerify(f"{who} returned {kind} for a NumPy array of {dtype}")
    if result.dtype != BY_NAME[dtype].numpy or result.shape != shape:
        returned = f"{result.dtype} of shape {result.shape}"
        raise CannotVerify(f"{who} returned {returned} for {dtype} of shape {shape}")
    # An array without dimensions becomes one of one.
    return np.ascontiguousarray(result).view(bits_type(dtype)).reshape(shape)


def probed(kernel: RoundBits) -> RoundBits:
    """The kernel, if it rounds one element; else raises :class:`NotSupported` with its error."""
    try:
        kernel(np.zeros(1, bits_type(kernel.source)))
    except CannotVerify as error:
        raise NotSupported(error.reason) from error
    return kernel


def _lacking(how: AnyHow) -> NotSupported:
    return NotSupported(f"it has no {how.operator} here")


def check_types(library: Any, *names: str) -> None:
    """Raise :class:`NotSupported` for a type that a library does not name."""
    for name in names:
        if not hasattr(library, name):
            raise NotSupported(f"it has no type {name}")


def first_line(error: BaseException) -> str:
    """The class of an error and the first line of its message."""
    text = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def version(module: ModuleType) -> str:
    """The version that a module states, or else its distribution."""
    return str(getattr(module, "__version__", None) or metadata.version(module.__name__))
