"""Writes docs/runtimes.md: how well-known runtimes round, cast and quantize, as verified here.

It runs ``tensor-round verify --json`` by this interpreter, which needs the runtimes: ``make
runtimes``. ``ARGS=torch=PYTHON`` also verifies another version of a runtime, by its interpreter.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import date
from pathlib import Path
from typing import Any

from suites.node_cases import SUITE, Found, node_cases, run
from tensor_round_verify.conversions.blocks.formats import RULES

PAGE = Path(__file__).parents[1] / "docs" / "runtimes.md"
OPERATORS = {
    "round": "Rounding",
    "cast": "Casts",
    "quantize_linear": "Linear quantization",
    "block_quantize": "Quantization into blocks",
    "block_dequantize": "Numbers of blocks",
}
RUNTIMES = {
    "round": (
        "onnxruntime",
        "onnx-reference",
        "openvino",
        "litert",
        "litert:builtin",
        "torch",
        "jax",
        "stablehlo",
        "numpy",
        "webgpu",
        "webgpu:ggml",
        "mlx",
        "tinygrad",
        "triton",
        "python:foreign:iree",
        "python:foreign:mnn",
    ),
    "cast": (
        "onnxruntime",
        "onnx-reference",
        "openvino",
        "litert",
        "litert:builtin",
        "torch",
        "jax",
        "stablehlo",
        "numpy",
        "mlx",
        "tinygrad",
        "triton",
        "python:foreign:ncnn",
    ),
    "quantize_linear": (
        "onnxruntime",
        "onnx-reference",
        "openvino",
        "litert",
        "litert:builtin",
        "torch",
    ),
    "block_quantize": (
        *(f"torchao --scale {rule}" for rule in RULES),
        "gfloat",
        "mlx --scale rceil",
        "gguf",
    ),
    "block_dequantize": (
        "torchao",
        "gfloat",
        "mlx",
        "gguf",
    ),
}
#: The types whose casts are listed one by one.
LISTED = ("float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2")
#: Those that cast between all types; others compile each array, which takes hours.
EVERY_PAIR = ("onnxruntime", "onnx-reference", "openvino", "litert:builtin", "torch", "numpy")
EVERY = """
The tables above are of casts between {types}
and {last}. This one counts the casts between all types that a runtime has. Its last columns are
the rules that explain most results which specifications leave open, with the number of casts: of
floats out of an integer's range, and of negative numbers in float8_e8m0fnu. jax, mlx, stablehlo,
tinygrad and triton, which compile for each array, were not asked for all types.

| runtime | casts | wrong | to integers | to float8_e8m0fnu |
|---|---|---|---|---|
"""
HEAD = """\
# How runtimes round

Each row is an error that `tensor-round verify` found on {day}, on {machine}.
"This is" names the [deviation](explanation.md#deviations-of-rounding) that predicts each result.
The last column is the command that repeats the row. The rounding tables count a changed NaN as
wrong (`--nans bits`). Further tables list the right results.

`make runtimes` writes this page. `verify` tries only the directions and the saturation that a
runtime has. wgpu runs on Mesa's lavapipe, a Vulkan driver for CPUs. LiteRT is TensorFlow's runtime
on devices; StableHLO means its reference interpreter, and Triton its interpreter. MLX rounds the
scales of blocks by a rule of its own, and is judged by the nearest, rceil. torch's quantization
changed with 2.14. IREE, MNN and ncnn are called by the functions of tools/foreign.py. CuPy and Core
ML were not run.

A result may depend on the processor. On others, torch rounds float64 `toward_zero` without a change
of NaNs, jax casts float64 to float16 right, and OpenVINO casts float32 to float8_e5m2 through
float16.
"""
#: Those that run models of ONNX.
MODEL_RUNTIMES = ("onnxruntime", "onnx-reference", "openvino")
SUITES = """
## Published suites

The tables judge ONNX's node tests of rounding, casts and quantization by the
[rules of verify](verify.md#a-model-node-by-node), not by the suite's tolerance: the expected
results, and each runtime's. A case without a verdict rounds nothing, or has types without a rule
here.

| operator | cases | with a verdict | expected results that are right | {runtimes} |
|---|---|---|---|{rules}|
"""
WRONG = """
Wrong results of these cases:

| runtime | case | wrong |
|---|---|---|
"""
NO_MORE = """
The service passes the suites of WebNN, StableHLO and the Array API too, to the bit.
[Published test suites](published-suites.md) lists the wrong rules that pass each suite.
"""
COLUMNS = (
    "| runtime | of | wrong | this is | first wrong result | to see it |\n" + "|---" * 6 + "|\n"
)


def main() -> int:
    """Write the page from verifications made now."""
    others = dict(text.split("=", 1) for text in sys.argv[1:])
    reports = {
        operator: [
            (name, _verified(name, operator, python))
            for name in RUNTIMES[operator]
            for python in (sys.executable, *([others[name]] if name in others else []))
        ]
        for operator in OPERATORS
    }
    found = list(run(node_cases(), MODEL_RUNTIMES))
    PAGE.write_text("".join((*_page(reports), *_suites(found))))
    return 0


def _verified(runtime: str, operator: str, python: str) -> Any:
    command = [python, "-m", "tensor_round", "verify", *runtime.split()]
    command += ["--operator", operator]
    command += [] if operator != "round" else ["--nans", "bits"]
    if operator == "cast" and runtime not in EVERY_PAIR:
        command += [part for dtype in LISTED for part in ("--dtype", dtype)]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    done = subprocess.run([*command, "--json"], env=environment, capture_output=True, text=True)
    if done.returncode not in (0, 1):
        raise SystemExit(f"{runtime} {operator}: {done.stderr}")
    print(runtime, operator, file=sys.stderr)
    # MNN prints, too.
    report, _ = json.JSONDecoder().raw_decode(done.stdout, done.stdout.index("{"))
    # NVFP4 has one rule for every --scale: the page lists it once.
    if rule := runtime.partition("torchao --scale ")[2]:
        report["verdicts"] = [row for row in report["verdicts"] if row["rounding"] == rule]
    return report


def _page(reports: dict[str, list[tuple[str, Any]]]) -> Iterator[str]:
    yield HEAD.format(day=date.today().isoformat(), machine=_machine())
    for operator, heading in OPERATORS.items():
        yield f"\n## {heading}\n\n"
        found = [(name, _listed(report)) for name, report in reports[operator]]
        rows = [row for name, report in found for row in _rows(name, report)]
        of_nans = [row for is_of_nans, row in rows if is_of_nans]
        yield COLUMNS + "".join(row for is_of_nans, row in rows if not is_of_nans)
        if of_nans:
            yield f"\nOf NaNs alone:\n\n{COLUMNS}{''.join(of_nans)}"
        yield "\n| runtime | right | not supported |\n|---|---|---|\n"
        yield from dict.fromkeys(_right(report) for _, report in found)
        if operator == "cast":
            yield EVERY.format(types=", ".join(LISTED[:-1]), last=LISTED[-1])
            whole = [report for name, report in reports[operator] if name in EVERY_PAIR]
            yield from (_counts(report["runtime"], report["verdicts"]) for report in whole)


def _types(row: Any) -> list[str]:
    """The source and the target of a cast; of another operator what it is judged by."""
    return str(row["dtype"]).partition(",")[0].split(" to ")


def _listed(report: Any) -> Any:
    """A report; of casts those between the types that are listed."""
    if report["operator"] != "cast":
        return report
    kept = {
        part: [row for row in report[part] if {*_types(row)} <= {*LISTED}]
        for part in ("verdicts", "lacking")
    }
    return {**report, **kept}


def _counts(runtime: str, verdicts: list[Any]) -> str:
    wrong = sum(verdict["wrong"] > 0 for verdict in verdicts)
    from_floats = [row for row in verdicts if _types(row)[0].startswith(("float", "bfloat"))]
    to_integers = [row for row in from_floats if "float" not in _types(row)[1]]
    unsigned = [row for row in verdicts if _types(row)[1] == "float8_e8m0fnu"]
    cells = (runtime, f"{len(verdicts)}", f"{wrong}", _rules(to_integers), _rules(unsigned))
    return f"| {' | '.join(cells)} |\n"


def _rules(verdicts: list[Any]) -> str:
    """The most common rules; casts that no rule explains, or each one, have none."""
    found = Counter(verdict["rule"] for verdict in verdicts if verdict["rule"])
    return ", ".join(f"{rule} ({count})" for rule, count in found.most_common())


def _suites(found: list[Found]) -> Iterator[str]:
    """What ONNX's node tests expect, and what runtimes give for them."""
    yield SUITES.format(
        runtimes=" | ".join(MODEL_RUNTIMES), rules="|".join("---" for _ in MODEL_RUNTIMES)
    )
    for operator in dict.fromkeys(row.operator for row in found):
        own = [row for row in found if row.operator == operator]
        expected = [row for row in own if row.who == SUITE]
        judged = [row for row in expected if row.right is not None]
        right = sum(row.right or False for row in judged)
        counts = (_counted([row for row in own if row.who == name]) for name in MODEL_RUNTIMES)
        cells = (f"`{operator}`", f"{len(expected)}", f"{len(judged)}", f"{right}", *counts)
        yield f"| {' | '.join(cells)} |\n"
    wrong = [row for row in found if row.right is False]
    if wrong:
        yield WRONG
        yield from (f"| {row.who} | `{row.case}` | {row.told} |\n" for row in wrong)
    yield NO_MORE


def _counted(rows: list[Found]) -> str:
    counts = (
        ("right", sum(row.right is True for row in rows)),
        ("wrong", sum(row.right is False for row in rows)),
        ("not run", sum(row.right is None for row in rows)),
    )
    return ", ".join(f"{count} {told}" for told, count in counts if count)


def _rows(name: str, report: Any) -> Iterator[tuple[bool, str]]:
    """Faults, those that have one explanation together; whether they are of NaNs alone."""
    groups: dict[tuple[str, ...], list[Any]] = {}
    for verdict in report["verdicts"]:
        if verdict["wrong"]:
            kinds = [kind for kind in verdict["classes"] if "nan" not in kind]
            explanation = verdict["sentence"].partition("; ")[2].removeprefix("this is ")
            groups.setdefault((str(bool(kinds)), explanation), []).append(verdict)
    for (has_numbers, explanation), verdicts in groups.items():
        worst = max(verdicts, key=lambda verdict: verdict["wrong"] / verdict["tried"])
        yield (
            has_numbers == "False",
            f"| {report['runtime']} | {_named(verdicts)} | {worst['wrong']:,} of "
            f"{worst['tried']:,} | {explanation} | {_example(worst)} | "
            f"`{_command(name, report['operator'], worst)}` |\n",
        )


def _named(verdicts: list[Any]) -> str:
    """Types, each with its directions."""
    directions: dict[str, list[str]] = {}
    for verdict in verdicts:
        directions.setdefault(verdict["dtype"], []).append(verdict["rounding"])
    alike: dict[str, list[str]] = {}
    for dtype, roundings in directions.items():
        alike.setdefault(", ".join(roundings), []).append(dtype)
    return "<br>".join(f"{_joined(dtypes)}: {roundings}" for roundings, dtypes in alike.items())


def _joined(names: Iterable[str]) -> str:
    """Conversions, those that share sources, targets and options together; types as they are."""
    options: dict[tuple[str, str], list[str]] = {}
    for name in names:
        types, _, option = name.partition(", ")
        source, _, target = types.partition(" to ")
        options.setdefault((source, target), []).append(option)
    targets: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for (source, target), found in options.items():
        targets.setdefault((source, tuple(found)), []).append(target)
    sources: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for (source, found), into in targets.items():
        sources.setdefault((", ".join(into), found), []).append(source)
    return "; ".join(
        ", ".join(own) + (f" to {into}" if into else "") + _options(found)
        for (into, found), own in sources.items()
    )


def _options(found: tuple[str, ...]) -> str:
    named = ", ".join(option for option in found if option)
    if not named:
        return ""
    return f" (also {named})" if "" in found else f" ({named})"


def _example(verdict: Any) -> str:
    kinds = verdict["classes"]
    kind = next((kind for kind in kinds if "nan" not in kind), next(iter(kinds)))
    first = kinds[kind]["first"][0]
    given = f" {first['given']}" if "given" in first else ""
    bits = {name: first[name]["bits"] for name in ("x", "got", "want")}
    told = {name: f"{first[name]['value']} ({bits[name]})" for name in bits}
    return f"{told['x']}{given}: got {told['got']}, want {told['want']}"


def _command(name: str, operator: str, verdict: Any) -> str:
    source, _, target = verdict["dtype"].partition(",")[0].partition(" to ")
    dtypes = "".join(f" --dtype {dtype}" for dtype in (source, target) if dtype)
    asked = " --nans bits" if operator == "round" else f" --operator {operator}"
    direction = "" if operator.startswith("block") else f" --rounding {verdict['rounding']}"
    return f"tensor-round verify {name}{asked}{dtypes}{direction}"


def _right(report: Any) -> str:
    right = [verdict for verdict in report["verdicts"] if not verdict["wrong"]]
    lacking = sorted({row["dtype"].partition(",")[0] for row in report["lacking"]})
    supported = {verdict["dtype"].partition(",")[0] for verdict in report["verdicts"]}
    missing = _joined(name for name in lacking if name not in supported)
    return f"| {report['runtime']} | {_named(right)} | {missing} |\n"


def _machine() -> str:
    names = [
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    return f"{platform.system()} on {platform.machine()} ({names[0] if names else 'unknown'})"


if __name__ == "__main__":
    sys.exit(main())
