"""Verifying linear quantization and dequantization: by one scale, per axis, and in blocks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from tensor_round.contract.dtypes import BY_NAME
from tensor_round.contract.errors import CannotVerify

from ..conversions.conversion import Linear, Quantization
from ..conversions.linear import expanded
from ..conversions.patterns import Operands, Trial, code_trials, has_nan, trials
from ..explain import Differs
from ..reference import FLOATS, Bits, bits_type, differs
from ..report import CallFault, Example, Verdict
from ..runtimes.forms import Arrays, Values
from ..runtimes.runtime import NotSupported, QuantizeBits, Runtime, TimedOut, patterns
from .array_forms import Effort, Findings, Subject
from .conversion_verdicts import given, verdict_on
from .repeatability import Tried

#: Shapes with an axis of :data:`~..conversions.patterns.CHANNELS`: ranks 1 to 5, tails of vectors.
AXES = (
    ((4,), 0),
    ((4, 19), 0),
    ((19, 4), 1),
    ((19, 4), -1),
    ((4, 1024), 0),
    ((1024, 4), 1),
    ((3, 4, 5), 1),
    ((1, 4, 67), 1),
    ((2, 3, 4), -1),
    ((2, 3, 4, 2, 3), 2),
)
#: Shapes with an axis and a size of its blocks, the last one of which may be shorter.
BLOCKS = (
    ((64,), 0, 32),
    ((3, 64), 1, 16),
    ((64, 3), 0, 32),
    ((4, 67), -1, 1),
    ((2, 1024), 1, 128),
    ((3, 6, 5), 1, 2),
    ((1, 33), 1, 33),
    ((2, 19), 1, 8),
    ((2, 3, 34, 2), 2, 32),
)


def linear_verdict(runtime: Runtime, convert: QuantizeBits, how: Linear, effort: Effort) -> Verdict:
    """The verdict on a quantization or dequantization; raises :class:`NotSupported`."""
    has_channels = how.per_axis or how.blocked
    differ = partial(differs, dtype=how.target)
    done: list[tuple[Trial, Tried]] = []
    refused: dict[str, set[int]] = {}
    for trial in _trials(how, per_axis=has_channels):
        try:
            if has_channels:  # an element's place is its channel's
                got = convert(trial)
                tried = Tried(trial.bits, got, got, None)
            else:
                want = how.results(trial.operands())
                tried = Tried.of(partial(_by, convert, trial), trial.bits, want, differ)
            done.append((trial, tried))
        except CannotVerify as error:
            # Some types have no other zero points than 0.
            is_known = isinstance(error, NotSupported) or (
                has_one_zero(how) and trial.zero_points.any() and not isinstance(error, TimedOut)
            )
            if not is_known:
                raise
            refused.setdefault(error.reason, set()).update(trial.zero_points.tolist())
    if not done:
        raise NotSupported(next(iter(refused)))
    operands = Operands.joined([trial.operands() for trial, _ in done])
    found = verdict_on(how, operands, np.concatenate([tried.got for _, tried in done]))
    skipped = [
        f"zero points {', '.join(map(str, sorted(points)))}: {why}"
        for why, points in refused.items()
    ]
    # By a scale that is no power of two, if there is a choice.
    trial, tried = done[min(6, len(done) - 1)]
    if has_channels:
        calls = _of_axes(convert, how, trial, tried, differ)
    else:
        where = given(how, trial.operands(), 0)
        arrays = Arrays(partial(_call, convert, trial), runtime.forms, runtime.slow)
        subject = Subject.of(arrays, how.source, how.target, where)
        calls = subject.findings(partial(_by, convert, trial), tried, effort)
    first, before = done[0]
    if not calls.unsteady and differ(convert(first), before.first_got).any():
        cause = "differs from call to call: the first tensor gives other results later"
        calls = Findings((CallFault(cause),), unsteady=True)
    specials = tuple(_of_nans(convert, how, trial))
    alike = how.named
    found = replace(found, alike=alike, refused=tuple(skipped), specials=specials)
    return calls.added_to(found)


def _by(convert: QuantizeBits, trial: Trial, bits: Bits) -> Bits:
    return convert(replace(trial, bits=bits))


def _call(convert: QuantizeBits, trial: Trial, x: Values) -> object:
    return convert.call(replace(trial, view=x))


def _trials(how: Linear, *, per_axis: bool) -> Iterator[Trial]:
    if isinstance(how, Quantization):
        return trials(how.source, how.codes, how.scale_type, per_axis=per_axis)
    return code_trials(how.source, how.scale_type, per_axis=per_axis)


def has_one_zero(how: Linear) -> bool:
    """Whether runtimes may take no zero point but 0: of floats, and of int32."""
    return how.codes in FLOATS or how.codes == "int32"


def _of_axes(
    convert: QuantizeBits, how: Linear, trial: Trial, tried: Tried, differ: Differs
) -> Findings:
    """Arrays whose channels or blocks lie along several axes, and the same call again."""
    if differ(convert(trial), tried.got).any():
        return Findings((CallFault("differs from call to call"),), unsteady=True)
    wrong: dict[str, Example] = {}
    refused = list[str]()
    count, draw = trial.bits.size // trial.scales.size, np.random.default_rng(754)
    for shape, axis, block in BLOCKS if how.blocked else [(*each, 1) for each in AXES]:
        # Of each scale, the channel or the block that it is of in the trial.
        sizes = [1] * len(shape)
        sizes[axis] = -(-shape[axis] // block)
        if how.blocked:
            sizes = [*shape]
            sizes[axis] = -(-shape[axis] // block)
        own = np.arange(np.prod(sizes)).reshape(sizes) % trial.scales.size
        blocks = [-(-size // each) for size, each in zip(shape, sizes, strict=True)]
        blocks[axis] = block
        places = expanded(own, shape, blocks) * count + draw.integers(0, count, shape)
        view = trial.bits[places].view(BY_NAME[how.source].numpy)
        own = own if how.blocked else own.reshape(-1)
        tensor = replace(
            trial,
            scales=trial.scales[own],
            zero_points=trial.zero_points[own],
            view=view,
            axis=axis,
            block_size=block,
        )
        size = f" in blocks of {block}" if how.blocked else ""
        told = f"axis {axis} of shape {shape}{size}"
        try:
            found = convert.call(tensor)
            got = patterns(found, shape, how.target, "it").reshape(-1)
        except TimedOut:
            raise
        except CannotVerify as error:
            refused.append(f"{told}: {error.reason}")
            continue
        known, bits = tried.got[places].reshape(-1), trial.bits[places].reshape(-1)
        for i in np.flatnonzero(differ(got, known))[:1]:
            where = given(how, trial.operands(), int(places.reshape(-1)[i]))
            x, y, z = int(bits[i]), int(got[i]), int(known[i])
            wrong[told] = Example(how.source, x, y, z, how.target, where)
    faults = (
        [CallFault(f"wrong for {', '.join(wrong)}", next(iter(wrong.values())))] if wrong else []
    )
    return Findings(tuple(faults), tuple(refused))


def _of_nans(convert: QuantizeBits, how: Linear, trial: Trial) -> Iterator[str]:
    """What a NaN becomes, of which there is no rule."""
    if how.source not in FLOATS or how.per_axis or how.blocked or has_nan(how.codes):
        return
    nan = np.full(8, np.nan).astype(BY_NAME[how.source].numpy).view(bits_type(how.source))
    try:
        got = convert(replace(trial, bits=nan)).view(BY_NAME[how.target].numpy)
    except CannotVerify as error:
        yield f"{how.name}: NaN is refused: {error.reason}"
        return
    values = ", ".join(map(str, dict.fromkeys(got.tolist())))
    yield f"{how.name}: NaN becomes {values} with zero point {trial.zero_points[0]}"
