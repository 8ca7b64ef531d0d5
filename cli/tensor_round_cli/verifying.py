"""``tensor-round verify``: other runtimes' results compared with the reference, bit for bit."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Annotated, cast

import typer

from tensor_round.contract.dtypes import BY_NAME, DTypeName
from tensor_round.contract.quoting import not_accepted
from tensor_round.contract.rounding import RoundingName
from tensor_round_verify import (
    ROUNDINGS,
    RUNTIMES,
    Baseline,
    Complaints,
    Report,
    complaints,
    junit_xml,
    verify,
)
from tensor_round_verify.checks.array_forms import REPEATS
from tensor_round_verify.checks.conversions import SCALES
from tensor_round_verify.checks.nans import told
from tensor_round_verify.checks.rounding import NANS, Nans
from tensor_round_verify.checks.verification import CAST_RULES, OPERATORS, Operator
from tensor_round_verify.conversions.blocks.formats import FORMATS, FormatName
from tensor_round_verify.conversions.blocks.formats import RULES as SCALE_RULES
from tensor_round_verify.graphs.report import wrapped
from tensor_round_verify.runtimes import TIMEOUT

from .connecting import AsJson, Progress
from .modelling import (
    MODEL_FILES,
    check_folder,
    is_model,
    refuse_options,
    verdict_or_exit,
    verify_model_file,
    write_junit,
)

SCALE_TYPES = SCALES["quantize_linear"]
RuntimeOrModel = Annotated[
    str,
    typer.Argument(
        metavar="RUNTIME|MODEL",
        autocompletion=lambda: [row.name for row in RUNTIMES],
        help=", ".join(map(str, RUNTIMES))
        + f". Or the file of a model ({', '.join(MODEL_FILES)}), with --input and --runtime.",
    ),
]
ModelInputs = Annotated[
    Path | None,
    typer.Option(
        "--input",
        metavar="FILE",
        help="For a model: a .npz file of its inputs by name, or a .npy file for one input.",
    ),
]
ModelRuntimes = Annotated[
    list[str] | None,
    typer.Option(
        "--runtime",
        metavar="RUNTIME",
        autocompletion=lambda: [row.name for row in RUNTIMES],
        help="For a model: a runtime that runs it; may be repeated.",
    ),
]
OperatorName = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        autocompletion=lambda: list(OPERATORS),
        help=f"What to verify: {', '.join(OPERATORS)}; such as --operator cast --dtype float32 "
        "--dtype int8.",
    ),
]
DTypes = Annotated[
    list[str] | None,
    typer.Option(
        "--dtype",
        metavar="NAME",
        autocompletion=lambda: [*BY_NAME, *FORMATS],
        help="A data type, such as float16, or a block format; may be repeated. For a "
        "conversion two: from the first to the second.",
        show_default="all that the runtime has",
    ),
]
Roundings = Annotated[
    list[str] | None,
    typer.Option(
        "--rounding",
        metavar="DIRECTION",
        autocompletion=lambda: list(ROUNDINGS),
        help=f"{', '.join(ROUNDINGS)}; may be repeated.",
        show_default="all that the runtime has",
    ),
]
ScaleRule = Annotated[
    str | None,
    typer.Option(
        metavar="RULE|TYPE",
        autocompletion=lambda: [*SCALE_RULES, *SCALE_TYPES],
        help=f"The rule of the scales of blocks: {', '.join(SCALE_RULES)}; of linear quantization "
        f"their type: {', '.join(SCALE_TYPES)}.",
        show_default="the specification's; every type that the runtime has",
    ),
]
CastRule = Annotated[
    str | None,
    typer.Option(
        metavar="RULE",
        autocompletion=lambda: list(CAST_RULES),
        help="What a cast must make of numbers beyond an integer type and of NaNs, and of negative "
        f"numbers in float8_e8m0fnu: {', '.join(CAST_RULES)}.",
        show_default="any one of them",
    ),
]
Every = Annotated[
    bool, typer.Option("--every", help="Try all 2^32 patterns of types of 32 bits (minutes).")
]
NansAs = Annotated[
    str | None,
    typer.Option(
        metavar="HOW",
        autocompletion=lambda: list(NANS),
        help="The right result for a NaN. bits: the same bits; quiet: also the quiet NaN of "
        "IEEE 754; any: any NaN.",
        show_default="any, and other bits are reported",
    ),
]
Repeat = Annotated[
    int,
    typer.Option(
        metavar="N",
        min=1,
        help="Call N times with the same array, and each of several threads if the runtime "
        "permits: for faults of few calls.",
    ),
]
Large = Annotated[
    bool,
    typer.Option(
        "--large",
        help="Also try arrays of 2^24 + 19 elements and of 2 and 4 GiB, which take three times "
        "as much memory.",
    ),
]
BaselineFile = Annotated[
    Path | None,
    typer.Option(help="An earlier report of --json; only differences from it fail."),
]
JUnitFile = Annotated[
    Path | None,
    typer.Option(help="Write the verdicts to this file too, as JUnit XML."),
]
Timeout = Annotated[
    float,
    typer.Option(
        min=0.001,
        help="Seconds that the runtime may take for a million patterns, or for a model.",
    ),
]


def verify_runtime(
    runtime: RuntimeOrModel,
    inputs: ModelInputs = None,
    runtimes: ModelRuntimes = None,
    operator: OperatorName = "round",
    dtypes: DTypes = None,
    roundings: Roundings = None,
    scale: ScaleRule = None,
    rule: CastRule = None,
    every: Every = False,
    nans: NansAs = None,
    repeat: Repeat = REPEATS,
    large: Large = False,
    baseline: BaselineFile = None,
    junit: JUnitFile = None,
    timeout: Timeout = TIMEOUT,
    progress: Progress = None,
    as_json: AsJson = False,
) -> None:
    """Verify how a runtime rounds: find wrong results, and explain them.

    For a runtime, verify tries all patterns of 8 and 16 bits, and hard and random patterns of wider
    types. For a model, it checks each rounding node on the tensor that reaches it,
    and the outputs of the unchanged model.
    Results must be right to the bit, the sign of zeros included; for NaNs
    see --nans. They must not depend on the array's length, its place in memory,
    its strides and dimensions, or on the call.

    Exit code 0: no error, or exactly those of the baseline. 1: an error, or a
    difference from the baseline. 2: no verdict.
    """
    _check(dtypes or (), (*BY_NAME, *FORMATS), "--dtype")
    _check([rule] if rule else [], CAST_RULES, "--rule")
    _check(roundings or (), ROUNDINGS, "--rounding")
    _check([nans] if nans else [], NANS, "--nans")
    _check([operator], OPERATORS, "--operator")
    _check([scale] if scale else [], SCALES.get(operator, SCALE_RULES), "--scale")
    nan_rule = cast(Nans | None, nans)
    if is_model(runtime):
        whole = {"--dtype": dtypes, "--rounding": roundings, "--every": every, "--scale": scale}
        more = {"--baseline": baseline, "--operator": operator != "round", "--rule": rule}
        calls = {"--repeat": repeat != REPEATS, "--large": large}
        refuse_options({**whole, **more, **calls}, "is for a runtime; a model has its own nodes")
        verify_model_file(runtime, inputs, runtimes or [], nan_rule, timeout, junit, as_json)
        return
    refuse_options({"--input": inputs, "--runtime": runtimes}, f"is for a model, not for {runtime}")

    def verified() -> Report:
        return verify(
            runtime,
            operator=cast(Operator, operator),
            dtypes=cast(list[DTypeName | FormatName], dtypes or []),
            roundings=cast(list[RoundingName], roundings or []),
            scale=scale,
            rule=rule,
            every=every,
            nans=nan_rule,
            repeat=repeat,
            large=large,
            progress=sys.stderr.isatty() if progress is None else progress,
            timeout=timeout,
        )

    _report(verified, baseline, junit, timeout, as_json)


def _report(
    verified: Callable[[], Report],
    baseline: Path | None,
    junit: Path | None,
    timeout: float,
    as_json: bool,
) -> None:
    """Print the report on a runtime, and exit with 1 if there are complaints."""
    with verdict_or_exit(as_json):
        check_folder(junit)
        known = None if baseline is None else Baseline.read(baseline, timeout)
        # Only the report goes to standard output; what a runtime prints goes to stderr.
        with redirect_stdout(sys.stderr):
            report = verified()
        found = complaints(report, known)
    _print_report(report, found, baseline, as_json)
    write_junit(junit, junit_xml(report, found), timeout, as_json)
    if found:
        raise typer.Exit(1)


def _check(given: list[str] | tuple[()], known: tuple[str, ...], option: str) -> None:
    for name in given:
        if name not in known:
            raise typer.BadParameter(not_accepted(name, known), param_hint=option)


def _print_report(report: Report, found: Complaints, baseline: Path | None, as_json: bool) -> None:
    """Print the report if there are complaints, and always a summary on stderr."""
    if as_json:
        rows = [
            {"dtype": dtype, "rounding": rounding, "complaint": complaint}
            for (dtype, rounding), complaint in found.items()
        ]
        typer.echo(json.dumps({**report.as_data(), "complaints": rows}))
        return
    if found:
        lines = str(report).splitlines()
        # Terminals break words; what reads a pipe reads lines.
        typer.echo("\n".join(wrapped(lines) if sys.stdout.isatty() else lines))
    if found and baseline is not None:
        typer.echo(f"\nnot as in {baseline}:")
        for pair, complaint in found.items():
            typer.echo(f"  {' '.join(pair)}: {complaint}")
    if not found:
        for note in report.notes:
            typer.echo(note, err=True)
    typer.echo(_summary(report, found, baseline), err=True)


def _summary(report: Report, found: Complaints, baseline: Path | None) -> str:
    tried = sum(verdict.tried for verdict in report.verdicts)
    wrong = sum(verdict.wrong for verdict in report.verdicts)
    calls = sum(len(verdict.calls) for verdict in report.verdicts)
    of_calls = f", {calls} call {'error' if calls == 1 else 'errors'}" if calls else ""
    if not wrong and not calls:
        nans = told(verdict.nans for verdict in report.verdicts if verdict.nans)
        verdict = f"every number is right; {nans}" if nans else "right"
    elif baseline is not None and not found:
        verdict = f"{wrong:,} wrong{of_calls}, as in {baseline}"
    else:
        verdict = f"{wrong:,} wrong{of_calls}"
    failed = sum(row.failed for row in report.lacking)
    lacking = f"; failed on {failed}" if failed else ""
    if unsupported := len(report.lacking) - failed:
        lacking += f"; {unsupported} not supported"
    return f"{report.runtime}: {tried:,} results, {verdict}{lacking}"
