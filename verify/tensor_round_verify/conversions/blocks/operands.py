"""Operands that are hard to quantize into blocks: at the edges of scales, at and beside ties.

For each scale there are blocks with the least and the largest amax that have it. Their elements
are every number of the format and every middle between two, by that scale, with the neighbours
of each in the operand's type, of both signs. Random operands meet none of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from tensor_round.contract.dtypes import BY_NAME

from ...deviation import NO_REPORT, Deviation
from ...reference import FLOATS, Bits, bits_type
from ..patterns import Operands
from ..reference import as_bits
from .formats import BlockFormat, Wide
from .quantization import Array, BlockQuantization, Blocks

#: Blocks in each row of the operands.
COLUMNS = 8
_SEED = 754
#: Puts the codes of blocks into another order.
Rearrange = Callable[[Blocks], Blocks]


def block_operands(how: BlockQuantization) -> Array:
    """The operands, of shape [rows, COLUMNS * size], in an order that mixes the scales."""
    size, kind = how.format.size, bits_type(how.source)
    draw = np.random.default_rng(_SEED)
    found = []
    for rule in ("floor", "ceil", "even") if how.format.is_nv else how.format.rules:
        codes, least, most = _edges(how, rule)
        rest = _near(how, codes)
        if rule != how.rounding:  # only the edges matter
            rest = draw.permuted(rest, axis=1)[:, : size - 1]
        each = rest.shape[1] // (size - 1)
        # Next to the edge, and so far that a type of fewer bits still has the edge itself.
        inside = most - np.minimum(most - least, _step(how.source))
        for amax in (least, most, inside):
            lead = np.repeat(amax, each)[:, None]
            sign = np.arange(lead.size)[:, None] % 2 * FLOATS[how.source].sign_bit
            others = rest.reshape(-1, size - 1)
            signs = others & FLOATS[how.source].sign_bit
            others = np.where((others ^ signs) > lead, lead | signs, others)
            found.append(np.concatenate([lead | sign, others], axis=1))
    zeros = np.array([[0], [FLOATS[how.source].sign_bit]]).repeat(size, axis=1)
    blocks = draw.permuted(draw.permutation(np.concatenate([*found, zeros])), axis=1)
    blocks = np.resize(blocks, (-(-len(blocks) // COLUMNS) * COLUMNS, size))
    return blocks.reshape(-1, COLUMNS * size).astype(kind).view(BY_NAME[how.source].numpy)


def _step(dtype: str) -> int:
    return 1 << max(0, FLOATS[dtype].fraction_bits - 9)


def _edges(how: BlockQuantization, rule: str) -> tuple[Wide, Wide, Wide]:
    """Every scale's code by a rule, with the patterns of the least and the largest amax."""
    top, kind = FLOATS[how.source].infinity - 1, bits_type(how.source)
    codes = np.unique(how.scales(how.values(np.array([1, top], kind)), rule))
    codes = np.arange(codes[0], codes[-1] + 1)
    low, high = np.ones(codes.size, np.int64), np.full(codes.size, top)
    while (low < high).any():  # a greater amax has no lesser scale
        middle = (low + high) // 2
        reached = how.scales(how.values(middle.astype(kind)), rule) >= codes
        low, high = np.where(reached, low, middle + 1), np.where(reached, middle, high)
    return codes, low, np.maximum(np.append(low[1:] - 1, top), low)


def _near(how: BlockQuantization, codes: Wide) -> Wide:
    """The numbers and middles by each scale, with neighbours and signs: [scales, elements]."""
    table, size = how.format.numbers.table, how.format.size
    points = np.concatenate([table, (table[1:] + table[:-1]) / 2])
    exact = how.format.scales[codes][:, None] * how.tensor_scale * points
    at = as_bits(exact, how.source).astype(np.int64).reshape(codes.size, -1)
    steps = (0, 1, -1, _step(how.source), -_step(how.source))
    near = np.concatenate([np.maximum(at + step, 0) for step in steps], axis=1)
    signed = np.concatenate([near, near | FLOATS[how.source].sign_bit], axis=1)
    return signed[:, np.arange(-(-signed.shape[1] // (size - 1)) * (size - 1)) % signed.shape[1]]


def coded_blocks(fmt: BlockFormat) -> Blocks:
    """Every scale, NaN too, with every element: of shapes [rows, COLUMNS] and its elements."""
    scales = np.arange(fmt.scales.size + 1)
    elements = np.resize(np.arange(1 << fmt.bits), max(1 << fmt.bits, fmt.size))
    each = np.repeat(scales, elements.size // fmt.size)
    rows = np.tile(elements.reshape(-1, fmt.size), (scales.size, 1))
    mixed = np.random.default_rng(_SEED).permutation(each.size)
    mixed = np.resize(mixed, -(-mixed.size // COLUMNS) * COLUMNS)
    blocks = each[mixed].reshape(-1, COLUMNS), rows[mixed].reshape(-1, COLUMNS * fmt.size)
    return blocks[0].astype(np.uint8), blocks[1].astype(np.uint8)


def quantized_operands(how: BlockQuantization, x: Array, found: Blocks) -> tuple[Operands, Bits]:
    """The operands and results of scales, then of elements, without those that may be anything.

    An element is judged by the scale that its block has: a wrong scale is one fault alone.
    """
    fmt, bits = how.format, x.view(bits_type(how.source)).reshape(-1, how.format.size)
    values, (scales, codes) = how.values(bits), (part.reshape(-1) for part in found)
    amax = np.abs(values).max(1)
    finite = scales < fmt.scales.size
    # Blocks of zeros may have any scale; so may those of NVFP4 whose scale would be 0, which the
    # format's description leaves open. Elements by a scale of 0 are all 0.
    vague = fmt.is_nv & (how.scales(amax, how.rounding) == 0) & (scales <= 1)
    judged = ~(finite & ((amax == 0) | vague))
    units = fmt.scales[np.where(finite, scales, 0)] * how.tensor_scale
    elements = np.repeat(finite & (units > 0), fmt.size)
    if fmt.is_integer:  # -128 / 64 is a number of the format, which may be left unused
        beyond = (values <= -127.5 / 64 * units[:, None]).reshape(-1)
        elements &= ~(beyond & (codes == 0x80))
    peaks, tops = (as_bits(each, how.source) for each in (amax, values.max(1)))
    operands = Operands(
        np.concatenate([peaks, bits.reshape(-1)]),
        np.concatenate([peaks, np.repeat(peaks, fmt.size)]),
        np.concatenate([np.full(scales.size, -1), np.repeat(scales.astype(np.int64), fmt.size)]),
        np.concatenate([tops, np.repeat(tops, fmt.size)]),
    )
    places = np.flatnonzero(np.concatenate([judged, elements]))
    return operands.at(places), np.concatenate([scales, codes])[places]


def decoded_operands(fmt: BlockFormat, blocks: Blocks) -> Operands:
    """The operands of dequantization: every element with its scale."""
    scales = np.repeat(blocks[0].reshape(-1), fmt.size)
    return Operands(blocks[1].reshape(-1), scales, scales.astype(np.int64))


def _swapped(blocks: Blocks) -> Blocks:
    scales, codes = blocks
    return scales, codes.reshape(-1, 2)[:, ::-1].reshape(codes.shape)


def _by_halves(blocks: Blocks) -> Blocks:
    """Codes in their order, of bytes with one of each half of a block, as ggml has them."""
    scales, codes = blocks
    pairs = codes.reshape(scales.size, codes.size // max(1, scales.size) // 2, 2)
    return scales, np.concatenate([pairs[..., 0], pairs[..., 1]], axis=1).reshape(codes.shape)


def _scales_moved(by: int) -> Rearrange:
    return lambda blocks: (np.roll(blocks[0], by), blocks[1])


def _turned(blocks: Blocks) -> Blocks:
    scales, codes = blocks
    return scales.reshape(scales.shape[::-1]).T, codes


def _turned_back(blocks: Blocks) -> Blocks:
    scales, codes = blocks
    return scales.T.reshape(scales.shape), codes


@dataclass(frozen=True, slots=True)
class Layout(Deviation):
    """A wrong order of the codes of elements or scales.

    ``mend`` puts a quantizer's blocks in order, all those of one call; ``read`` gives the blocks
    that a decoder takes in place of its operands.
    """

    mend: Rearrange = field(repr=False)
    read: Rearrange = field(repr=False)


def _layout(name: str, mend: Rearrange, read: Rearrange, source: str = NO_REPORT) -> Layout:
    return Layout(name, "layout", name, source, mend, read)


LAYOUTS = (
    _layout("nibbles swapped", _swapped, _swapped, "gh:triton-lang/triton#11668"),
    _layout("nibbles by halves of a block", _by_halves, _by_halves),
    _layout("scales of the next block", mend=_scales_moved(1), read=_scales_moved(-1)),
    _layout("scales of the block before", mend=_scales_moved(-1), read=_scales_moved(1)),
    _layout("scales transposed", mend=_turned, read=_turned_back),
)
