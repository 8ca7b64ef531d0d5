"""Verifying a runtime: its results for all test patterns are compared with the reference."""

from __future__ import annotations

import contextlib
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock
from typing import Literal, get_args

from tensor_round.contract.dtypes import DTypeName
from tensor_round.contract.errors import InvalidArgument
from tensor_round.contract.progress import ProgressCallback, counted
from tensor_round.contract.rounding import Rounding, RoundingName

from ..conversions.run import verify_conversions
from ..errors import CannotVerify, NotTaken
from ..explain import Hypotheses
from ..patterns import blocks, pattern_count, samples
from ..reference import ROUNDINGS, WIDTHS, Bits, bits_type
from ..runtimes import TIMEOUT, PythonFunction, Runtime, open_runtime
from ..runtimes.function import Function
from ..runtimes.runtime import RoundBits
from .judge import NANS, BlockVerdict, Nans, Tally, judge
from .results import Lacking, Report, Verdict

Pair = tuple[str, str]
#: What may be verified.
Operator = Literal["round", "cast", "quantize_linear"]
OPERATORS: tuple[Operator, ...] = get_args(Operator)


def verify(
    runtime: str | Function | Runtime,
    *,
    operator: Operator = "round",
    dtypes: Sequence[DTypeName] = (),
    roundings: Sequence[RoundingName | Rounding] = (),
    every: bool = False,
    nans: Nans = "bits",
    progress: bool | ProgressCallback = False,
    timeout: float = TIMEOUT,
) -> Report:
    """Round the test patterns of :func:`blocks` by a runtime, and compare each result bit for bit.

    With the ``operator`` ``cast`` or ``quantize_linear`` it is verified in these instead, at
    every tie and every number of the target; any NaN is right there, and ``every`` no matter.
    ``runtime`` is a name as on the command line (``onnxruntime``, ``cmd:./kernel``), or a function
    from NumPy array to NumPy array. ``dtypes`` and ``roundings`` default to all that it supports.
    ``every`` tries all 2^32 patterns of dtypes of 32 bits. ``nans`` is the required result for a
    NaN: the same ``bits``, a ``quiet`` NaN as IEEE 754 has it, or ``any`` NaN. ``timeout``, in
    seconds, limits each block of a program or function, and each call of a service. ``progress``
    is True for a bar on stderr, or a function that is called with the bytes done and in total.

    Raises :class:`CannotVerify` if no verdict is possible: the runtime is missing, fails, returns
    a value of another form, or supports nothing of what is asked for.
    """
    _check("operator", [operator], OPERATORS)
    _check("dtypes", dtypes, tuple(WIDTHS))
    _check("roundings", roundings, ROUNDINGS)
    _check("nans", [nans], NANS)
    if operator != "round":
        if isinstance(runtime, Runtime):
            raise InvalidArgument(f"{operator} is verified of a name or a function")
        return verify_conversions(runtime, operator, dtypes, roundings, progress, timeout)
    with contextlib.closing(_opened(runtime, timeout)) as opened:
        pairs = [
            (dtype, rounding)
            for dtype in dict.fromkeys(dtypes or opened.dtypes)
            for rounding in dict.fromkeys(map(str, roundings or opened.roundings))
        ]
        sizes = {dtype: _bytes(dtype, every) for dtype, _ in pairs}
        total = sum(sizes[dtype] for dtype, _ in pairs)
        verdicts, lacking = [], []
        with counted(progress, total, "verifying") as done, Judges(opened, nans, done) as judges:
            for dtype, rounding in pairs:
                try:
                    verdicts.append(judges.verdict(dtype, rounding, every))
                except NotTaken as error:
                    lacking.append(Lacking(dtype, rounding, error.detail))
                    done(sizes[dtype])
        _check_taken(opened, dtypes, roundings, verdicts, lacking)
        return Report(opened.name, tuple(verdicts), tuple(lacking))


class Judges:
    """Threads that round blocks and compare the results, one for each core."""

    def __init__(self, runtime: Runtime, nans: Nans, done: Callable[[int], None]) -> None:
        self._runtime = runtime
        self._nans = nans
        self._done = done
        self._count = usable_cores()
        self._pool = ThreadPoolExecutor(self._count, "judge")
        # A runtime for one thread only still rounds while other blocks are compared.
        self._runtime_lock = contextlib.nullcontext() if runtime.concurrent else Lock()

    def __enter__(self) -> Judges:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    def verdict(self, dtype: str, rounding: str, every: bool) -> Verdict:
        """The verdict on one dtype and direction; raises :class:`NotTaken`."""
        kernel = self._runtime.kernel(dtype, rounding)
        tally = Tally(dtype, rounding)
        hypotheses: Hypotheses | None = None
        if every and WIDTHS[dtype] == 32:
            # The hardest patterns first, uncounted: they select the models for the rest.
            hypotheses = self._judged(kernel, samples(dtype), dtype, rounding, None).hypotheses
        patterns = blocks(dtype, every=every)
        if hypotheses is None:
            first = next(patterns)
            block = self._judged(kernel, first, dtype, rounding, None)
            hypotheses = block.hypotheses
            self._add(tally, block, first.nbytes)
        for block, size in self._in_order(patterns, kernel, dtype, rounding, hypotheses):
            self._add(tally, block, size)
        return tally.verdict()

    def _add(self, tally: Tally, block: BlockVerdict, size: int) -> None:
        tally.add(block)
        self._done(size)

    def _in_order(
        self,
        patterns: Iterator[Bits],
        kernel: RoundBits,
        dtype: str,
        rounding: str,
        hypotheses: Hypotheses,
    ) -> Iterator[tuple[BlockVerdict, int]]:
        """Yield each block's verdict and bytes; only a few blocks are in memory at once."""
        waiting: deque[tuple[Future[BlockVerdict], int]] = deque()
        for block in patterns:
            job = self._pool.submit(self._judged, kernel, block, dtype, rounding, hypotheses)
            waiting.append((job, block.nbytes))
            if len(waiting) > self._count:
                done, size = waiting.popleft()
                yield done.result(), size
        for done, size in waiting:
            yield done.result(), size

    def _judged(
        self,
        kernel: RoundBits,
        bits: Bits,
        dtype: str,
        rounding: str,
        hypotheses: Hypotheses | None,
    ) -> BlockVerdict:
        with self._runtime_lock:
            got = kernel(bits)
        return judge(bits, got, dtype, rounding, hypotheses, self._nans)


def usable_cores() -> int:
    """The number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _bytes(dtype: str, every: bool) -> int:
    return pattern_count(dtype, every=every) * bits_type(dtype).itemsize


def _opened(runtime: str | Function | Runtime, timeout: float) -> Runtime:
    if isinstance(runtime, str):
        return open_runtime(runtime, timeout)
    # A function is a kernel itself.
    return runtime if isinstance(runtime, Runtime) else PythonFunction(runtime, timeout)


def _check(what: str, given: Sequence[str], known: Sequence[str]) -> None:
    if isinstance(given, str):
        raise InvalidArgument(f"{what} is a sequence of names, got the string {given!r}")
    for name in given:
        if name not in known:
            raise InvalidArgument(f"{what}: {name!r} is none of {', '.join(known)}")


def _check_taken(
    runtime: Runtime,
    dtypes: Sequence[str],
    roundings: Sequence[str],
    verdicts: Sequence[Verdict],
    lacking: Sequence[Lacking],
) -> None:
    """Raise for a requested dtype or direction that the runtime does not support at all."""
    judged = {name for verdict in verdicts for name in (verdict.dtype, verdict.rounding)}
    for name in (*dtypes, *roundings):
        if name not in judged:
            why = next(row.why for row in lacking if name in (row.dtype, row.rounding))
            raise NotTaken(f"{runtime.name}: no verdict on {name}: {why}")
    if not verdicts:
        raise CannotVerify(f"{runtime.name} takes none of the types: {lacking[0].why}")
