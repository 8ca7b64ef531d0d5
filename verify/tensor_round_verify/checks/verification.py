"""Verifying a runtime: its results for all test patterns are compared with the reference."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Literal, get_args

from tensor_round.contract.dtypes import BY_NAME, DTypeName
from tensor_round.contract.errors import CannotVerify, InvalidArgument
from tensor_round.contract.progress import ProgressCallback, counted
from tensor_round.contract.quoting import not_accepted
from tensor_round.contract.rounding import Rounding, RoundingName

from ..conversions.blocks.formats import FORMATS, RULES, FormatName
from ..conversions.reference import INTEGER_RULES, UNSIGNED_RULES
from ..patterns import pattern_count
from ..reference import ROUNDINGS, WIDTHS, bits_type
from ..report import Lacking, Pair, Report, Verdict
from ..runtimes import TIMEOUT, NotSupported, Runtime, open_runtime
from ..runtimes.function import Function
from ..runtimes.runtime import Adapter, TimedOut
from .array_forms import REPEATS, Effort
from .conversions import SCALES, ConversionOperator, conversion_verdict, conversions
from .rounding import NANS, Judges, Nans

#: What may be verified.
Operator = Literal["round"] | ConversionOperator
OPERATORS: tuple[Operator, ...] = ("round", *get_args(ConversionOperator))
Progress = bool | ProgressCallback
#: The rules for what is out of an integer type's range, and for negatives in float8_e8m0fnu.
CAST_RULES = tuple(dict.fromkeys((*INTEGER_RULES, *UNSIGNED_RULES)))
#: A dtype and direction, how much of the progress it is, and the function that judges it.
Trial = tuple[Pair, int, Callable[[], Verdict]]


def verify(
    runtime: str | Function,
    *,
    operator: Operator = "round",
    dtypes: Sequence[DTypeName | FormatName] = (),
    roundings: Sequence[RoundingName | Rounding] = (),
    scale: str | None = None,
    rule: str | None = None,
    every: bool = False,
    nans: Nans | None = None,
    repeat: int = REPEATS,
    large: bool = False,
    progress: Progress = False,
    timeout: float = TIMEOUT,
) -> Report:
    """Round the test patterns of :func:`blocks` by a runtime, and compare each result bit for bit.

    ``runtime`` is a name as on the command line (``onnxruntime``, ``cmd:./kernel``), or a function
    from NumPy array to NumPy array. ``dtypes`` and ``roundings`` default to all that it supports.
    ``every`` tries all 2^32 patterns of dtypes of 32 bits. Results must not depend on the array's
    length, memory, strides or dimensions, or on the call.

    ``rule`` is that of casts where specifications leave results open, one of :data:`CAST_RULES`.
    By default any one is right, and the report names it.

    ``nans`` is the required result for a NaN: the same ``bits``, a ``quiet`` NaN, which IEEE 754
    requires, or ``any`` NaN. By default any NaN is right, and the report lists changed bits.

    The ``operator`` ``cast``, ``quantize_linear``, ``dequantize_linear`` or ``fake_quantize``
    verifies these conversions instead, at every tie and every number of the target; two ``dtypes``
    are those of operands and results, or of fake quantization those of operands and codes. With
    ``block_quantize`` or ``block_dequantize``, ``dtypes`` are block formats, such as
    ``mxfp4_e2m1``, and types of operands. ``nans`` and ``every`` have no effect on conversions.

    ``scale`` is of blocks the rule of scales: ``floor``, which is the specification's, ``ceil``,
    ``rceil`` or ``even``. Of linear quantization it is their type, such as ``float8_e8m0fnu``, by
    default that of the numbers; runtimes of ONNX take all types in turn.

    ``repeat`` is how often the same array is given again, for faults of few calls. ``large`` also
    tries arrays of 2^24 + 19 elements and of 2 and 4 GiB, which take three times as much memory.

    ``timeout`` limits each block of a program or function, and each call of a service, in seconds.
    ``progress`` is True for a bar on stderr, or a function of the bytes done and in total.

    Raises :class:`CannotVerify` if no verdict is possible: the runtime is missing, fails, returns
    a value of another form, or supports none of the types and directions.
    """
    _check("operator", [operator], OPERATORS)
    _check("dtypes", dtypes, tuple(WIDTHS) if operator == "round" else (*BY_NAME, *FORMATS))
    _check("roundings", roundings, ROUNDINGS)
    _check("scale", [scale] if scale else [], SCALES.get(operator, RULES))
    _check("rule", [rule] if rule else [], CAST_RULES)
    _check("nans", [nans] if nans else [], NANS)
    names = [str(rounding) for rounding in roundings]
    opened = open_runtime(runtime, timeout)
    if repeat < 1:
        raise InvalidArgument(f"repeat is at least 1, got {repeat}")
    effort = Effort(repeat, large, opened.concurrent)
    if operator == "round":
        if not isinstance(opened, Adapter):
            raise CannotVerify(f"{opened.name} has no round here")
        return _verify_rounding(opened, dtypes, names, every, nans, effort, progress)
    return _verify_conversions(opened, operator, dtypes, names, scale, rule, effort, progress)


def _verify_rounding(
    runtime: Adapter,
    dtypes: Sequence[str],
    roundings: Sequence[str],
    every: bool,
    nans: Nans | None,
    effort: Effort,
    progress: Progress,
) -> Report:
    sizes = {
        (dtype, rounding): pattern_count(dtype, every=every) * bits_type(dtype).itemsize
        for dtype in dtypes or runtime.dtypes
        for rounding in roundings or runtime.roundings
    }
    with (
        contextlib.closing(runtime),
        counted(progress, sum(sizes.values()), "verifying") as done,
        Judges(runtime, nans, effort, done) as judges,
    ):
        trials = ((pair, sizes[pair], partial(judges.verdict, *pair, every)) for pair in sizes)
        report = _report(runtime.name, "round", trials, done)
    judged = {name for verdict in report.verdicts for name in verdict.pair}
    for name in (*dtypes, *roundings):
        rows = [row for row in report.lacking if name in row.pair]
        if name not in judged and not any(row.failed for row in rows):
            why = rows[0].why
            raise NotSupported(f"{runtime.name}: no verdict on {name}: {why}")
    if not report.verdicts:
        raise CannotVerify(f"{runtime.name} supports none of the types: {report.lacking[0].why}")
    if runtime.assumed and not dtypes:
        return replace(report, notes=(runtime.assumed,))
    return report


def _verify_conversions(
    runtime: Runtime,
    operator: ConversionOperator,
    dtypes: Sequence[str],
    roundings: Sequence[str],
    scale: str | None,
    rule: str | None,
    effort: Effort,
    progress: Progress,
) -> Report:
    with contextlib.closing(runtime):
        mixes_types = runtime.mixes_types
        asked = conversions(operator, dtypes, roundings, scale, rule or "", mixes_types=mixes_types)
        with counted(progress, len(asked), "verifying") as done:
            trials = (
                (
                    (how.name, how.rounding),
                    1,
                    partial(conversion_verdict, runtime, how, effort, done),
                )
                for how in asked
            )
            report = _report(runtime.converts_by, operator, trials, done)
    if not report.verdicts:
        why = report.lacking[0].why
        raise CannotVerify(f"{report.runtime}: no verdict on {operator}: {why}")
    return report


def _report(
    name: str, operator: Operator, trials: Iterable[Trial], done: Callable[[int], None]
) -> Report:
    """The report on these trials; ``done`` is called with the size of those without a verdict.

    Raises the first error of a runtime that failed, if there is no verdict.
    """
    verdicts, lacking = [], []
    errors: list[CannotVerify] = []
    for pair, size, judge in trials:
        if errors and isinstance(errors[-1], TimedOut):
            why = "it is not called again after a call that did not finish"
            lacking.append(Lacking(*pair, why, failed=True))
            continue
        try:
            verdicts.append(judge())
        except NotSupported as error:
            lacking.append(Lacking(*pair, error.detail))
            done(size)
        except CannotVerify as error:
            errors.append(error)
            lacking.append(Lacking(*pair, error.reason, failed=True))
            done(size)
    if errors and not verdicts:
        raise errors[0]
    return Report(name, tuple(verdicts), tuple(lacking), operator)


def _check(what: str, given: Sequence[str], known: Sequence[str]) -> None:
    if isinstance(given, str):
        raise InvalidArgument(f"{what} is a sequence of names, got the string {given!r}")
    for name in given:
        if name not in known:
            raise InvalidArgument(f"{what}: {not_accepted(name, known)}")
