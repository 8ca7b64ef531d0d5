"""Verifying quantization into blocks, and back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from tensor_round.contract.dtypes import BY_NAME
from tensor_round.contract.errors import CannotVerify

from ..conversions.blocks.operands import (
    LAYOUTS,
    Layout,
    block_operands,
    coded_blocks,
    decoded_operands,
    quantized_operands,
)
from ..conversions.blocks.quantization import (
    Array,
    BlockDequantization,
    BlockHow,
    BlockQuantization,
    Blocks,
)
from ..conversions.patterns import Operands
from ..explain import Explanation
from ..reference import Bits, Flags, bits_type, differs
from ..report import CallFault, Example, Verdict
from ..runtimes.forms import Arrays, Form, Values
from ..runtimes.runtime import DequantizeBlocks, QuantizeBlocks, Runtime, values
from .array_forms import Effort, Subject
from .conversion_verdicts import verdict_on
from .repeatability import Moved, Tried
from .sample_arrays import Elements

_STOCHASTIC = "the same array gives other results in another call: rounding is stochastic"
#: Operands of one call, before all are given at once.
PART = 1 << 14
#: An element's code beside that of its block's scale, as one number: (codes, scales).
_CODES = "uint16"


def _joined(blocks: Blocks, size: int) -> Array:
    """The code of each element, with that of its scale above it."""
    scales, codes = blocks
    every = np.repeat(scales, size, axis=-1)[..., : codes.shape[-1]]
    joined: Array = codes.astype(np.uint16) | every.astype(np.uint16) << 8
    return joined


def block_quantize_verdict(
    runtime: Runtime, quantize: QuantizeBlocks, how: BlockQuantization, effort: Effort
) -> Verdict:
    """The verdict on a quantization into blocks; raises :class:`NotSupported`."""
    x, fmt = block_operands(how), how.format
    bits = x.reshape(-1).view(bits_type(how.source))

    def in_calls(quantize: QuantizeBlocks, rows: int) -> list[Blocks]:
        """The blocks of the operands, of so many rows in each call."""
        return [
            quantize(values(part.reshape(-1), how.source).reshape(part.shape))
            for part in (
                bits.reshape(x.shape)[start : start + rows] for start in range(0, len(x), rows)
            )
        ]

    # A program is started for each call.
    rows = len(x) if runtime.slow else max(1, PART // x.shape[1])
    first = in_calls(quantize, rows)

    def mended(layout: Layout | None) -> Blocks:
        return _concatenated(list(map(layout.mend, first)) if layout else first)

    again = _concatenated(in_calls(quantize, rows))
    if not all(map(np.array_equal, _concatenated(first), again)):
        # What changes from call to call has no other cause.
        verdict = Verdict(how.name, how.rounding, bits.size, 0, (), Explanation((), ()), "")
        return replace(verdict, calls=(CallFault(_STOCHASTIC),), unsteady=True)
    verdict, layout = _laid_out(how, lambda layout: quantized_operands(how, x, mended(layout)))
    found, mend = mended(layout), layout.mend if layout else _as_they_are

    def in_order(some: Values) -> Blocks:
        """Blocks at wrong places are one fault: what else is wrong is found without it."""
        return mend(quantize(some))

    others = list(_of_parts(in_order, x[:12]))
    results = _joined(found, fmt.size).reshape(-1)
    whole = _joined(_concatenated(in_calls(in_order, len(x))), fmt.size).reshape(-1)
    moved = None
    for i in np.flatnonzero(whole != results)[:1].tolist():
        moved = Moved(i, bits.size, int(bits[i]), int(whole[i]), int(results[i]))

    def call(some: Values) -> object:
        return _joined(in_order(some), fmt.size)

    def example(bits: int, got: int, want: int) -> Example:
        of_scale = got & 255 == want & 255
        if of_scale:
            got, want = got >> 8, want >> 8
        return Example(how.source, bits, got & 255, want & 255, how.target, of_scale=of_scale)

    elements = Elements(how.source, _CODES, fmt.size)
    subject = Subject(Arrays(call, runtime.forms, runtime.slow), elements, np.not_equal, example)
    tried = Tried(bits, results, results, moved)
    calls = subject.findings(lambda _: results, tried, effort)
    return calls.added_to(
        replace(
            verdict,
            calls=tuple(other for other in others if isinstance(other, CallFault)),
            refused=tuple(other for other in others if isinstance(other, str)),
            specials=tuple(_of_specials(how, in_order, x)),
        )
    )


def block_dequantize_verdict(
    runtime: Runtime, dequantize: DequantizeBlocks, how: BlockDequantization, effort: Effort
) -> Verdict:
    """The verdict on the numbers of blocks; raises :class:`NotSupported`."""
    blocks, size = coded_blocks(how.format), how.format.size
    first = dequantize(blocks)

    def judged(layout: Layout | None) -> tuple[Operands, Bits]:
        return decoded_operands(how.format, layout.read(blocks) if layout else blocks), first

    verdict, layout = _laid_out(how, judged)
    mend = layout.mend if layout else _as_they_are
    decoded = dequantize(mend(blocks)) if layout else first

    def call(joined: Values) -> object:
        scales, codes = joined[..., ::size] >> 8, joined & 255
        found = dequantize(mend((scales.astype(np.uint8), codes.astype(np.uint8))))
        return found.reshape(joined.shape).view(BY_NAME[how.target].numpy)

    def differ(got: Bits, want: Bits) -> Flags:
        return differs(got, want, how.target)

    def example(joined: int, got: int, want: int) -> Example:
        by = f"by {how.format.scale_value(joined >> 8)}"
        return Example(how.source, joined & 255, got, want, how.target, by)

    subject = Subject(
        # What is given is split, in new memory.
        Arrays(call, runtime.forms & ~Form.MEMORY, runtime.slow),
        Elements(_CODES, how.target, size),
        differ,
        example,
    )
    tried = Tried(_joined(blocks, size).reshape(-1), decoded, decoded, None)
    return subject.findings(lambda _: dequantize(mend(blocks)), tried, effort).added_to(verdict)


def _laid_out(
    how: BlockHow, judged: Callable[[Layout | None], tuple[Operands, Bits]]
) -> tuple[Verdict, Layout | None]:
    """The verdict on blocks; if they lie wrongly, how, and what else explains them in order.

    ``judged`` gives operands and results, of blocks as they should lie if a layout is given.
    """
    verdict = verdict_on(how, *judged(None))
    if verdict.explanation.complete:
        return verdict, None
    for layout in LAYOUTS:
        if not layout.name.startswith("nibbles") or how.format.bits == 4:
            operands, got = judged(layout)
            # The search for what else is wrong takes long.
            if differs(got, how.results(operands), how.target).sum() >= verdict.wrong:
                continue
            numbers = verdict_on(how, operands, got).explanation.numbers
            if numbers is not None:
                found = Explanation((layout, *numbers), ())
                return replace(verdict, explanation=found), layout
    return verdict, None


def _as_they_are(blocks: Blocks) -> Blocks:
    return blocks


def _concatenated(calls: Sequence[Blocks]) -> Blocks:
    scales, codes = (np.concatenate(each) for each in zip(*calls, strict=True))
    return scales, codes


def _of_parts(quantize: QuantizeBlocks, rows: Array) -> Iterator[CallFault | str]:
    """Errors on rows whose last block is not whole, and their refusal in words."""
    part = rows[:, :-3]
    padded = np.concatenate([part, np.zeros((len(rows), 3), rows.dtype)], axis=1)
    try:
        scales, codes = quantize(part)
    except CannotVerify as error:
        yield f"an array of shape {part.shape}: {error.reason}"
        return
    right = quantize(padded)
    if (scales != right[0]).any() or (codes != right[1][:, : part.shape[-1]]).any():
        yield CallFault(f"an array of shape {part.shape} has other results than with zeros behind")


def _of_specials(how: BlockQuantization, quantize: QuantizeBlocks, x: Array) -> Iterator[str]:
    """The scale of a block with a NaN, and of one with infinity, of which there is no rule."""
    for special in (np.nan, np.inf):
        block = x[:1].copy()
        block[0, 1] = special
        try:
            scale = how.format.scale_value(int(quantize(block)[0][0, 0]))
            yield f"{how.target}: the scale of a block with {special} is {scale}"
        except CannotVerify as error:
            yield f"{how.target}: a block with {special} is refused: {error.reason}"
