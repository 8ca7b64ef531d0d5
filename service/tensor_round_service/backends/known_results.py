"""Known results: operands on which rounding, conversions and quantization often fail."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tensor_round.contract.call import Call, Parameters
from tensor_round.contract.dtypes import BY_NAME, DType
from tensor_round.contract.functions import (
    Convert,
    Dequantize,
    FakeQuantize,
    Function,
    Linear,
    Quantize,
    RoundToIntegral,
)
from tensor_round.contract.host_memory import pack
from tensor_round.contract.layout import Layout
from tensor_round.contract.rounding import Rounding

from . import Bytes
from .cpu.quantization import code_type

_EVEN = Convert(Rounding.TIES_TO_EVEN)

#: Ties, and what is next to them; halfway to what is beyond the largest number, and to the least;
#: subnormals, -0, infinities, and signalling and negative NaNs. One row at least for each way of
#: NumPy's to convert.
_ROWS: tuple[tuple[Function, str, str, dict[int, int]], ...] = (
    (
        RoundToIntegral(Rounding.TIES_TO_EVEN),
        "float32",
        "float32",
        {
            0x3F000000: 0x00000000,  # 0.5
            0xBF000000: 0x80000000,  # -0.5
            0x3EFFFFFF: 0x00000000,  # the largest below 0.5: adding 0.5 yields 1
            0x3FC00000: 0x40000000,  # 1.5
            0x40200000: 0x40000000,  # 2.5
            0xBE99999A: 0x80000000,  # -0.3
            0x80000001: 0x80000000,  # the least negative subnormal: flushing to +0 loses its sign
            0x4AFFFFFF: 0x4B000000,  # 8388607.5, the largest value with a fraction
            0xFF800000: 0xFF800000,  # -infinity
            0x7F800001: 0x7F800001,  # a signalling NaN
        },
    ),
    (
        _EVEN,
        "float32",
        "float8_e4m3fn",
        {
            0x3F880000: 0x38,  # 1.0625, a tie
            0x3F880800: 0x39,  # more by 2^-12: a tie for those who round to float16 first
            0x3F980000: 0x3A,
            0x43E80000: 0x7E,  # 464, as far from 448 as from the next, which would be 480
            0x43E80001: 0x7F,
            0xFF800000: 0xFF,
            0x7F800001: 0x7F,
            0xFFC00000: 0xFF,
            0x3A800000: 0x00,  # half the least number
            0x3A800001: 0x01,
            0x3B400000: 0x02,
            0x80000001: 0x80,
        },
    ),
    (
        Convert(Rounding.TIES_TO_EVEN, saturates=True),
        "float32",
        "float8_e4m3fn",
        {0x43E80001: 0x7E, 0xFF7FFFFF: 0xFE, 0x7F800000: 0x7E, 0xFF800000: 0xFE, 0x7F800001: 0x7F},
    ),
    (
        _EVEN,
        "float32",
        "float8_e5m2fnuz",
        {0x80000000: 0x00, 0x80000001: 0x00, 0x7F800000: 0x80, 0xFFC00000: 0x80},
    ),
    (
        _EVEN,
        "float32",
        "float8_e8m0fnu",
        {
            0x3FBFFFFF: 0x7F,
            0x3FC00000: 0x80,  # 1.5: of two powers of two, none is even
            0x00400000: 0x00,  # the least
            0x003FFFFF: 0xFF,
            0x00000000: 0xFF,
            0xBF800000: 0xFF,
            0x7F7FFFFF: 0xFF,
            0x7F800000: 0xFF,
        },
    ),
    (
        _EVEN,
        "float32",
        "float4_e2m1fn",
        {
            0x3E800000: 0x0,
            0x3E800001: 0x1,
            0x3F400000: 0x2,
            0x40A00000: 0x6,
            0x40E00000: 0x7,
            0x80000001: 0x8,
            0x7FC00000: 0x7,
            0xFF800000: 0xF,
        },
    ),
    (
        _EVEN,
        "float32",
        "float16",
        {
            0x3F801000: 0x3C00,
            0x3F801001: 0x3C01,
            0x3F803000: 0x3C02,
            0x477FEFFF: 0x7BFF,
            0x477FF000: 0x7C00,  # 65520
            0x33000000: 0x0000,
            0x33000001: 0x0001,
            0x80000001: 0x8000,
            0xFF800001: 0xFE00,
        },
    ),
    (
        Convert(Rounding.TOWARD_POSITIVE),
        "float32",
        "float16",
        {
            0x3F800001: 0x3C01,
            0xBF800001: 0xBC00,
            0x477FE001: 0x7C00,
            0xC77FE001: 0xFBFF,  # toward zero there is a largest number
            0x00000001: 0x0001,
            0x80000001: 0x8000,
            0xFF800000: 0xFC00,
            0x7F800001: 0x7E00,
        },
    ),
    (
        _EVEN,
        "float32",
        "bfloat16",
        {
            0x3F808000: 0x3F80,
            0x3F808001: 0x3F81,
            0x3F818000: 0x3F82,
            0x7F7F8000: 0x7F80,
            0x00008000: 0x0000,
            0x00018000: 0x0002,
            0x80000001: 0x8000,
            0x7F800001: 0x7FC0,  # its upper half alone is infinity
            0xFFFFFFFF: 0xFFC0,  # carried over, it is a zero
        },
    ),
    (
        _EVEN,
        "float64",
        "float32",
        {
            0x3FF0000010000000: 0x3F800000,
            0x3FF0000010000001: 0x3F800001,
            0x3FF0000030000000: 0x3F800002,
            0x47EFFFFFEFFFFFFF: 0x7F7FFFFF,
            0x47EFFFFFF0000000: 0x7F800000,
            0x3690000000000000: 0x00000000,
            0x3690000000000001: 0x00000001,
            0x8000000000000001: 0x80000000,
            0xFFF0000000000001: 0xFFC00000,
        },
    ),
    (
        _EVEN,
        "float64",
        "float8_e4m3fn",
        {
            0x3FF1000000000000: 0x38,
            0x3FF1000000000001: 0x39,  # a tie for those who round to float32 first
            0x407D000000000000: 0x7E,
            0x407D000000000001: 0x7F,
            0x3F50000000000000: 0x00,
            0x3F50000000000001: 0x01,
            0x8000000000000001: 0x80,
            0xFFF0000000000001: 0xFF,
        },
    ),
    (
        _EVEN,
        "float16",
        "float8_e4m3fn",
        {0x3C40: 0x38, 0x3C41: 0x39, 0x5F40: 0x7E, 0x5F41: 0x7F, 0x1401: 0x01, 0x8001: 0x80},
    ),
    (
        _EVEN,
        "float8_e5m2",
        "float32",
        {0x01: 0x37800000, 0x80: 0x80000000, 0x83: 0xB8400000, 0xFC: 0xFF800000, 0xFD: 0xFFC00000},
    ),
    (
        Convert(Rounding.TOWARD_ZERO),
        "float32",
        "int8",
        {
            0x42FFFFFF: 0x7F,
            0x43000000: 0x7F,
            0xC3010000: 0x80,
            0xBF7FFFFF: 0x00,
            0x7F800000: 0x7F,
            0xFF800000: 0x80,
            0xFFC00000: 0x00,
        },
    ),
    (
        _EVEN,
        "int64",
        "float32",
        {
            0x0000000001000001: 0x4B800000,
            0x0000000001000003: 0x4B800002,
            0xFFFFFFFFFEFFFFFF: 0xCB800000,
            0x4000004000000000: 0x5E800000,
            0x4000004000000001: 0x5E800001,  # a tie for those who round to float64 first
            0x7FFFFFFFFFFFFFFF: 0x5F000000,
            0x8000000000000000: 0xDF000000,
        },
    ),
    (
        _EVEN,
        "int64",
        "bfloat16",
        {0x4040000000000000: 0x5E80, 0x4040000000000001: 0x5E81, 0x8000000000000000: 0xDF00},
    ),
    (_EVEN, "int32", "int8", {0x00000080: 0x80, 0xFFFFFF7F: 0x7F, 0x000001FF: 0xFF}),
)

#: Of quantization, with the types of operands, scale and results, one scale and one zero point.
_LINEAR_ROWS: tuple[tuple[Linear, tuple[str, str, str], int, int | None, dict[int, int]], ...] = (
    (
        Quantize(),
        ("float32", "float32", "int8"),
        0x3DCCCCCD,  # 0.1
        3,
        {
            0x3FC66666: 0x12,  # a quotient just below 15.5: times the reciprocal, it is one more
            0x3F400000: 0x0B,  # 7.5 when rounded to float32, less when it stays exact
            0x3D4CCCCD: 0x03,  # 0.5: the zero point is added to an even integer
            0x3E19999A: 0x05,
            0x41480000: 0x7F,  # 125 + 3
            0xC1520000: 0x80,
            0x7F800000: 0x7F,
            0xFF800000: 0x80,
            0x7F800001: 0x03,
            0xFFC00000: 0x03,
        },
    ),
    (
        Quantize(),
        ("bfloat16", "bfloat16", "uint8"),
        0x3DCD,
        5,
        {0x3EB3: 0x09, 0x3EE7: 0x09, 0x4141: 0x7D, 0x414C: 0x85, 0xFF80: 0x00, 0x7FC1: 0x05},
    ),
    (
        Quantize(),
        ("float32", "float32", "float8_e4m3fn"),
        0x3DCCCCCD,
        None,
        {0x3FC66666: 0x57, 0x43E80000: 0x7E, 0x7F800000: 0x7E, 0x80000001: 0x80, 0xFFC00000: 0x7F},
    ),
    (
        Dequantize(),
        ("int8", "float32", "float32"),
        0x3DCCCCCD,
        0xFF,
        {0x7F: 0x414CCCCD, 0x80: 0xC14B3333, 0xFF: 0x00000000, 0x02: 0x3E99999A},
    ),
    (
        Dequantize(),
        ("uint16", "float32", "float16"),
        0x3DCCCCCD,
        7,
        {0x2805: 0x6400, 0x2819: 0x6402, 0xFFFF: 0x6E66, 0x0007: 0x0000, 0x0000: 0xB99A},
    ),
    (
        Quantize(),
        ("float32", "float32", "int16"),
        0x00000002,  # subnormal: flushed, it is a division by 0
        0x8000,
        {
            0x00000001: 0x8000,
            0x00000003: 0x8002,
            0x00000005: 0x8002,
            0x80000003: 0x8000,
            0x00800000: 0x7FFF,
            0x00000000: 0x8000,
        },
    ),
    (
        FakeQuantize(through=BY_NAME["uint8"]),
        ("float32", "float32", "float32"),
        0x00400000,  # subnormal, as the products are
        1,
        {
            0x00400000: 0x00400000,
            0x80200000: 0x00000000,  # -0.5 becomes the integer 0, which has no sign
            0x80C00000: 0x80400000,
            0x7F800000: 0x03FE0000,
            0xFFC00000: 0x00000000,
        },
    ),
)


@dataclass(frozen=True, slots=True)
class Known:
    """A call on packed operands and parameters, and the bytes of its results."""

    call: Call
    operands: Bytes
    results: Bytes


def _bytes(patterns: list[int], dtype: DType) -> Bytes:
    elements = np.array(patterns, dtype.bits)
    return pack(elements) if dtype.is_sub_byte else elements.view(np.uint8)


def _known(function: Function, source: DType, target: DType, results: dict[int, int]) -> Known:
    call = Call.packed_output(function, Layout.of(source, (len(results),)), target)
    return Known(call, _bytes([*results], source), _bytes([*results.values()], target))


def _known_linear(
    function: Linear,
    types: tuple[str, str, str],
    scale: int,
    point: int | None,
    results: dict[int, int],
) -> Known:
    source, of_scale, target = map(BY_NAME.__getitem__, types)
    codes = code_type(function, source, target)
    points = [] if point is None else [point]
    given, scales = Layout.of(source, (len(results),)), Layout.of(of_scale, (1,))
    parameters = Parameters.of(given.shape, scales, codes if points else None)
    made = Layout.of(target, given.shape)
    call = Call(function, given, made, given.byte_length, parameters)
    parts = _bytes([*results], source), _bytes([scale], of_scale), _bytes(points, codes)
    return Known(call, np.concatenate(parts), _bytes([*results.values()], target))


_WITHOUT_PARAMETERS = tuple(
    _known(function, BY_NAME[source], BY_NAME[target], results)
    for function, source, target, results in _ROWS
)
KNOWN_LINEAR = tuple(_known_linear(*row) for row in _LINEAR_ROWS)
KNOWN = (*_WITHOUT_PARAMETERS, *KNOWN_LINEAR)
#: Those of conversions: the first rounds to integral values.
KNOWN_CONVERSIONS = _WITHOUT_PARAMETERS[1:]
