"""Calls of linear quantization with operands, and what must come back by the reference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from support.cases.array_cases import off_wire, on_wire
from support.cases.backend_calls import run
from support.cases.references import faked, quantized
from tensor_round.contract.call import Call, Parameters
from tensor_round.contract.dtypes import BY_NAME
from tensor_round.contract.functions import Dequantize, FakeQuantize, Linear, Quantize
from tensor_round.contract.layout import Layout
from tensor_round_service.backends import Backend
from tensor_round_verify.conversions.linear import dequantized, expanded
from tensor_round_verify.reference import INTEGER_WIDTHS, Bits, bits_type, width


@dataclass(frozen=True)
class Operands:
    """Patterns of the elements, the scales and the zero points, in their shapes."""

    x: Bits
    scale: Bits
    zero_point: Bits | None


def drawn(dtype: str, shape: Sequence[int], seed: int) -> Bits:
    """Patterns of all kinds, most of them of numbers near 1 if the type has many."""
    rng = np.random.default_rng(seed)
    found = rng.integers(0, 1 << width(dtype), shape, np.uint64)
    if width(dtype) > 8:
        near = rng.standard_normal(shape) * 10.0 ** rng.integers(-2, 4, shape)
        if dtype in INTEGER_WIDTHS:
            usual = near.astype(np.int64).astype(np.uint64) & np.uint64((1 << width(dtype)) - 1)
        else:
            kind = BY_NAME[dtype]
            usual = near.astype(kind.numpy).view(kind.bits).astype(np.uint64)
        found = np.where(rng.random(shape) < 0.8, usual, found)
    elif dtype == "float8_e8m0fnu":
        usual = rng.integers(119, 135, shape, np.uint64)
        found = np.where(rng.random(shape) < 0.8, usual, found)
    return found.astype(bits_type(dtype))


def linear_call(
    function: Linear,
    types: Sequence[str],
    shape: Sequence[int],
    counts: Sequence[int],
    *,
    blocks: Sequence[int] | None = None,
    has_point: bool = True,
    strides: tuple[Sequence[int] | None, Sequence[int] | None] = (None, None),
) -> Call:
    """A call on the types of elements, scales and results."""
    source, scale, target = (BY_NAME[name] for name in types)
    point = BY_NAME[quantized_type(function, types)] if has_point else None
    given = Layout.of(source, shape, strides[0])
    parameters = Parameters.of(shape, Layout.of(scale, counts), point, blocks)
    result = Layout.of(target, shape, strides[1])
    return Call(function, given, result, given.byte_length, parameters)


def quantized_type(function: Linear, types: Sequence[str]) -> str:
    """The type of the zero points."""
    if isinstance(function, FakeQuantize):
        return function.through.name
    return types[0] if isinstance(function, Dequantize) else types[2]


def operands_of(call: Call, seed: int) -> Operands:
    """Operands of all kinds for a packed call."""
    parameters = call.parameters
    assert parameters is not None
    point = parameters.zero_point
    if parameters.constants is not None:
        assert point is not None
        scale, given = parameters.scale, parameters.constants
        found = [
            off_wire(part, layout.dtype.name, layout.element_count).view(layout.dtype.bits)
            for part, layout in (
                (given[: scale.byte_length], scale),
                (given[scale.byte_length :], point),
            )
        ]
        x = drawn(call.input.dtype.name, call.input.shape, seed)
        return Operands(x, *(one.reshape(scale.shape) for one in found))
    return Operands(
        drawn(call.input.dtype.name, call.input.shape, seed),
        drawn(parameters.scale.dtype.name, parameters.scale.shape, seed + 1),
        None if point is None else drawn(point.dtype.name, point.shape, seed + 2),
    )


def payload_of(call: Call, operands: Operands) -> bytes:
    """The bytes of a payload: elements, scales and zero points, one behind the other."""
    parameters = call.parameters
    assert parameters is not None
    parts = [(operands.x, call.input)]
    if parameters.constants is None:
        parts.append((operands.scale, parameters.scale))
        if operands.zero_point is not None and parameters.zero_point is not None:
            parts.append((operands.zero_point, parameters.zero_point))
    return b"".join(on_wire(bits.view(layout.dtype.numpy)) for bits, layout in parts)


def right(call: Call, operands: Operands) -> Bits:
    """The reference's results."""
    parameters, function = call.parameters, call.function
    assert parameters is not None
    x = operands.x.reshape(-1)
    scales = expanded(operands.scale, call.input.shape, parameters.blocks).reshape(-1)
    points = None
    if operands.zero_point is not None:
        points = expanded(operands.zero_point, call.input.shape, parameters.blocks).reshape(-1)
    types = (call.input.dtype.name, parameters.scale.dtype.name, call.output.dtype.name)
    if isinstance(function, Dequantize):
        return dequantized(x, scales, points, types)
    assert isinstance(function, Quantize)
    precision = "" if function.precision is None else function.precision.name
    saturate = function.saturates
    if isinstance(function, FakeQuantize):
        through = (*types[:2], function.through.name, types[2])
        return faked(x, scales, points, through, precision=precision, saturate=saturate)
    found = quantized(x, scales, points, types, precision=precision, saturate=saturate)
    if function.limits is None:
        return found
    # The ends lie within the type's, so that the order of the two does not matter.
    spare = 64 - width(types[2])
    wide = found.astype(np.int64 if types[2].startswith("int") else np.uint64)
    codes = np.clip(wide << spare >> spare, *function.limits)
    return (codes & ((1 << width(types[2])) - 1)).astype(found.dtype)


def check(backend: Backend, call: Call, operands: Operands) -> None:
    """Hold a backend against the reference, in new memory and, if the call allows it, in place."""
    payload, want = payload_of(call, operands), right(call, operands)
    for in_place in (False, True) if call.is_in_place else (False,):
        with np.errstate(all="raise"):
            made = run(backend, call, payload, in_place=in_place)
        dtype = call.output.dtype
        got = off_wire(made, dtype.name, want.size).view(dtype.bits)
        wrong = np.flatnonzero(got != want)[:3]
        told = [(hex(operands.x.reshape(-1)[i]), hex(got[i]), hex(want[i])) for i in wrong]
        assert not told, (call, told)
