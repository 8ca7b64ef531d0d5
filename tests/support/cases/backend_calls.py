"""Calls put to a backend the hard way, a model of what must come back, and a watched backend."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from functools import cache

import numpy as np

from support.cases.array_cases import off_wire, on_wire
from support.cases.references import reduced
from tensor_round.contract.call import Call
from tensor_round.contract.dtypes import BY_NAME
from tensor_round.contract.functions import Convert, Function, ReducePrecision
from tensor_round.contract.rounding import Rounding
from tensor_round_service.backends import Backend, Bytes
from tensor_round_service.backends import in_place as in_place_memory
from tensor_round_service.backends.cpu.backend import NumpyBackend
from tensor_round_service.engine.overlap import PIECE_BYTES
from tensor_round_verify.conversions.reference import cast
from tensor_round_verify.patterns import samples
from tensor_round_verify.reference import FLOATS, Bits, rounded

#: What stands in a target before a call: a byte of it left over would show.
STALE = 0xAA


def flat_call(dtype: str, rounding: str, count: int) -> Call:
    """``count`` elements in a row, in and out."""
    return Call.packed(Rounding(rounding), dtype, [count])


def run(backend: Backend, call: Call, source: bytes, *, in_place: bool = False) -> bytes:
    """The backend's answer, from a target full of stale bytes; the source must stay as it was."""
    given = backend.allocate(len(source))
    given[:] = np.frombuffer(source, np.uint8)
    if in_place:
        result = in_place_memory(call, given)
        backend.round(call, given, result)
        return result.tobytes()
    target = backend.allocate(call.output.byte_length)
    target[:] = STALE
    backend.round(call, given, target)
    assert given.tobytes() == source, "the source was written to"
    return target.tobytes()


def run_flat(
    backend: Backend, dtype: str, rounding: str, patterns: Bits, *, in_place: bool = False
) -> Bits:
    """The answers to ``patterns`` in a row."""
    call = flat_call(dtype, rounding, patterns.size)
    answer = run(backend, call, on_wire(patterns.view(BY_NAME[dtype].numpy)), in_place=in_place)
    return off_wire(answer, dtype, patterns.size).view(patterns.dtype)


@cache
def sample_pair(dtype: str, rounding: str) -> tuple[Bits, Bits]:
    """Hard patterns of a type and what they round to."""
    patterns = samples(dtype)
    return patterns, rounded(patterns, dtype, rounding)


@cache
def tame_pair(dtype: str, rounding: str) -> tuple[Bits, Bits]:
    """Those hard patterns of a float type that stand for numbers below 2^20, shuffled.

    Nothing about them bars a quick way of rounding, and neighbours have nothing in common.
    """
    fmt = FLOATS[dtype]
    patterns, right = sample_pair(dtype, rounding)
    fields = (patterns & patterns.dtype.type(fmt.sign_bit - 1)) >> fmt.fraction_bits
    last_field = (fmt.sign_bit - 1) >> fmt.fraction_bits
    tame = np.flatnonzero((fields < fmt.bias + 20) & (fields < last_field))
    order = np.random.default_rng(20).permutation(tame)
    return patterns[order], right[order]


def expected(call: Call, source: bytes) -> bytes:
    """The answer by its definition: element by element, by the strides, zeros where none lies."""
    dtype, target, length = call.input.dtype, call.output.dtype, call.output.byte_length
    elements = off_wire(source, dtype.name, dtype.count(len(source))).view(dtype.bits)
    results = results_of(call.function, elements, dtype.name, target.name)
    answer = np.zeros(target.count(length) + 1, target.bits)
    for index in itertools.product(*map(range, call.input.shape)):
        at, to = (
            sum(i * stride for i, stride in zip(index, layout.strides, strict=True))
            for layout in (call.input, call.output)
        )
        answer[to] = results[at]
    return on_wire(answer.view(target.numpy))[:length]


def results_of(function: Function, elements: Bits, source: str, target: str) -> Bits:
    """What the reference has for a function of these patterns."""
    match function:
        case Convert(rounding, saturates) if source != target:
            return cast(elements, source, target, rounding, saturate=saturates)
        case Convert():
            return elements
        case ReducePrecision(_, exponent_bits, mantissa_bits):
            return reduced(elements, source, exponent_bits, mantissa_bits)
    return rounded(elements, source, function.rounding)


class WatchedBackend(NumpyBackend):
    """Rounds, and remembers what it was given."""

    def __init__(self) -> None:
        super().__init__()
        #: Bytes of each call, in turn.
        self.sizes: list[int] = []
        #: What happens before a call of that many bytes is done.
        self.before: Callable[[int], object] = bool

    def round(self, call: Call, source: Bytes, target: Bytes) -> str:
        self.before(target.size)
        done_by = super().round(call, source, target)
        self.sizes.append(target.size)
        return done_by

    def wait_for_a_piece(self) -> None:
        deadline = time.monotonic() + 10
        while PIECE_BYTES not in self.sizes:
            assert time.monotonic() < deadline, "nothing was rounded of what came"
            time.sleep(0.001)
