"""Writes docs/runtimes.md: how well-known runtimes round, cast and quantize, as verified here.

It runs ``tensor-round verify --json`` by this interpreter, which needs the runtimes: ``make
runtimes``. ``ARGS=torch=PYTHON`` also verifies another version of a runtime, by its interpreter.
"""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any, TypeVar

from suites import page as suites
from suites.node_cases import SUITE, Found, node_cases, run
from tensor_round_verify.conversions.blocks.formats import RULES

Key = TypeVar("Key")
Value = TypeVar("Value")
PAGE = Path(__file__).parents[1] / "docs" / "runtimes.md"
OPERATORS = {
    "round": "Rounding",
    "cast": "Casts",
    "quantize_linear": "Linear quantization",
    "dequantize_linear": "Linear dequantization",
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
    "dequantize_linear": ("onnxruntime", "onnx-reference", "openvino", "litert", "litert:builtin"),
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
#: The types whose quantizations are counted.
QUANTIZED = ("float32", "float16", "int8", "uint8", "int4", "float8_e4m3fn")
#: Those that cast between all types; others compile each array, which takes hours.
EVERY_PAIR = ("onnxruntime", "onnx-reference", "openvino", "litert:builtin", "torch", "numpy")
RIGHT = "\n| runtime | right | not supported |\n|---|---|---|\n"
CASTS = """
The other casts of a runtime between {types} and {last} are right.

| runtime | not supported |
|---|---|
"""
EVERY = """
These are the casts between all types that a runtime has, with the rules that explain what
specifications leave open: floats out of an integer's range, and negative numbers in
float8_e8m0fnu. Runtimes that compile for each array were not asked.

| runtime | casts | wrong | to integers | to float8_e8m0fnu |
|---|---|---|---|---|
"""
HEAD = """\
# How runtimes round

`tensor-round verify` found these errors on {day}, on {machine}.
"This is" names the [deviation](explanation.md#deviations) that predicts every result of the row; if
it is empty, no named deviation does. A row without a direction holds for all that the runtime has.
In rounding, a changed NaN counts as wrong. In parentheses: an operand's scale and zero point. To
repeat a row, use its names:
`tensor-round verify openvino --nans bits --dtype float16 --rounding ties_to_away`, or
`tensor-round verify mlx --operator cast --dtype float64 --dtype float8_e4m3fn`.

Versions: {versions}; `torch` on the CPU.

wgpu runs on Mesa's lavapipe, a Vulkan driver for CPUs. `stablehlo` and `triton` are their
interpreters. `verify` judges MLX's own rule for the scales of blocks by the nearest, rceil.
`python:foreign:` calls functions of tools/foreign.py. CuPy and Core ML were not run. On other
processors, torch rounds float64 `toward_zero` without a change of NaNs, jax casts float64 to
float16 right, and OpenVINO casts float32 to float8_e5m2 through float16.
"""
#: Those that run models of ONNX.
MODEL_RUNTIMES = ("onnxruntime", "onnx-reference", "openvino")
NODE_TESTS = """
## ONNX's node tests

The [rules of verify](verify.md#a-model-node-by-node), not the suite's tolerance, judge the results
that ONNX's node tests expect, and those of runtimes. A case without a verdict rounds nothing, or
has types without a rule here.

| operator | cases | with a verdict | expected results that are right | {runtimes} |
|---|---|---|---|---|{rules}|
"""
COUNTS = f"""\
Between {", ".join(QUANTIZED)}: in each layout, and by scales and quotients of each type.

| runtime | conversions | wrong | this is (of how many) |
|---|---|---|---|
"""
COLUMNS = "| runtime | of | this is | example |\n|---|---|---|---|\n"
#: Of an element in a report.
PARTS = ("value", "bits")
#: What `verify` says without a name for a fault.
UNNAMED = "no named deviation explains it"


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
    PAGE.write_text("".join((*_page(reports), *_node_tests(found), suites.section())))
    return 0


def _verified(runtime: str, operator: str, python: str) -> Any:
    command = [python, "-m", "tensor_round", "verify", *runtime.split()]
    command += ["--operator", operator]
    command += [] if operator != "round" else ["--nans", "bits"]
    dtypes = LISTED if operator == "cast" and runtime not in EVERY_PAIR else ()
    dtypes = QUANTIZED if operator.endswith("_linear") else dtypes
    command += [part for dtype in dtypes for part in ("--dtype", dtype)]
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
    versions = {_label(*one): one[1]["runtime"] for found in reports.values() for one in found}
    told = "; ".join(
        f"`{label}` {version.removeprefix(f'{label} ')}"
        for label, version in versions.items()
        if ":" not in label and not version.startswith(f"{label},")
    )
    yield HEAD.format(day=date.today().isoformat(), machine=_machine(), versions=told)
    for operator, heading in OPERATORS.items():
        yield f"\n## {heading}\n\n"
        if operator.endswith("_linear"):
            yield COUNTS
            yield from (
                _explanations(_label(*one), one[1]["verdicts"]) for one in reports[operator]
            )
            continue
        found = _joined_reports((name, _listed(report)) for name, report in reports[operator])
        wrong = [row for label, report in found.items() for row in _wrong(label, report)]
        yield COLUMNS + "".join(_merged(row for row in wrong if not row.is_of_nans))
        if of_nans := [row for row in wrong if row.is_of_nans]:
            yield "\nOf NaNs alone:\n\n| this is | of | example |\n|---|---|---|\n"
            yield from _by_explanation(of_nans)
        if operator != "cast":
            yield RIGHT
            yield from _alike((label, (_right(row), _lacking(row))) for label, row in found.items())
            continue
        # Of the many casts, those that are right are the rest.
        yield CASTS.format(types=", ".join(LISTED[:-1]), last=LISTED[-1])
        yield from _alike((label, (_lacking(row),)) for label, row in found.items())
        yield EVERY
        whole = [one for one in reports[operator] if one[0] in EVERY_PAIR]
        yield from (_counts(_label(*one), one[1]["verdicts"]) for one in whole)


def _grouped(pairs: Iterable[tuple[Key, Value]]) -> dict[Key, list[Value]]:
    """The values of each key, in the order of the first ones."""
    found: dict[Key, list[Value]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return found


def _alike(rows: Iterable[tuple[str, tuple[str, ...]]]) -> Iterator[str]:
    """A row for each pair of cells, with the runtimes that have it; none for empty ones."""
    for cells, labels in _grouped((cells, label) for label, cells in rows).items():
        if any(cells):
            yield f"| `{'`, `'.join(labels)}` | {' | '.join(cells)} |\n"


def _label(name: str, report: Any) -> str:
    """The runtime's word for ``verify``; of torch, of which two run, with the version."""
    word = name.partition(" --")[0]
    return word if word != "torch" else str(report["runtime"]).partition(",")[0]


def _joined_reports(found: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """By the label; several of one runtime, by its rules of scales, as one."""
    joined: dict[str, Any] = {}
    for name, report in found:
        if other := joined.get(label := _label(name, report)):
            report = {**report, "verdicts": [*other["verdicts"], *report["verdicts"]]}
        joined[label] = report
    return joined


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


def _explanations(runtime: str, verdicts: list[Any]) -> str:
    """How many quantizations are wrong, and how many of them each explanation explains."""
    wrong = [verdict for verdict in verdicts if verdict["wrong"] or verdict["calls"]]
    found = Counter(
        " and ".join(verdict["deviations"]) if verdict["explained"] else "no named deviation"
        for verdict in wrong
    )
    told = ", ".join(f"{name} ({count})" for name, count in found.most_common(3))
    return f"| `{runtime}` | {len(verdicts)} | {len(wrong)} | {told} |\n"


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


def _node_tests(found: list[Found]) -> Iterator[str]:
    """What ONNX's node tests expect, and what runtimes give for them."""
    yield NODE_TESTS.format(
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


def _counted(rows: list[Found]) -> str:
    counts = (
        ("right", sum(row.right is True for row in rows)),
        ("wrong", sum(row.right is False for row in rows)),
        ("not run", sum(row.right is None for row in rows)),
    )
    return ", ".join(f"{count} {told}" for told, count in counts if count)


@dataclass(frozen=True, slots=True)
class _Fault:
    """Verdicts of one runtime that have one explanation."""

    label: str
    of: str
    explanation: str
    example: str
    is_of_nans: bool

    @property
    def key(self) -> str:
        """What others may share: without an explanation nothing."""
        return self.explanation or f"none: {self.label}"


def _wrong(label: str, report: Any) -> Iterator[_Fault]:
    """Faults, those that have one explanation together."""
    wrong = [verdict for verdict in report["verdicts"] if verdict["wrong"]]
    kinds = (
        (
            all("nan" in kind for kind in verdict["classes"]),
            _explained(verdict["sentence"].partition("; ")[2]),
        )
        for verdict in wrong
    )
    for (is_of_nans, explanation), verdicts in _grouped(zip(kinds, wrong, strict=True)).items():
        worst = max(verdicts, key=lambda verdict: verdict["wrong"] / verdict["tried"])
        parts = [{_types(verdict)[place] for verdict in verdicts} for place in (0, -1)]
        types = [_types(worst)[place] for place in (0, -1) if len(parts[place]) > 1]
        example = _example(worst, " to ".join(dict.fromkeys(types)))
        yield _Fault(label, _named(verdicts, report), explanation, example, is_of_nans)


def _explained(told: str) -> str:
    """Without the words that stand in each row, and without one element of many."""
    told = re.sub(r", such as element \d+ of \d+", "", told)
    return told.removeprefix("this is ").replace(UNNAMED, "").removeprefix("; ").removesuffix("; ")


def _merged(faults: Iterable[_Fault]) -> Iterator[str]:
    """A row for each fault; runtimes with one explanation for the same types share theirs."""
    for found in _grouped(((fault.of, fault.key), fault) for fault in faults).values():
        labels, first = "`, `".join(fault.label for fault in found), found[0]
        yield f"| `{labels}` | {first.of} | {first.explanation} | {first.example} |\n"


def _by_explanation(faults: list[_Fault]) -> Iterator[str]:
    for found in _grouped((fault.key, fault) for fault in faults).values():
        labels = _grouped((fault.of, f"`{fault.label}`") for fault in found)
        of = "<br>".join(f"{', '.join(own)}: {types}" for types, own in labels.items())
        yield f"| {found[0].explanation} | {of} | {found[0].example} |\n"


def _named(verdicts: list[Any], report: Any) -> str:
    """Types, each with its directions unless these are all."""
    every, directions = (
        _grouped((row["dtype"], row["rounding"]) for row in rows)
        for rows in (report["verdicts"], verdicts)
    )
    is_told = report["operator"] == "block_quantize"
    alike = _grouped(
        (", ".join(roundings) if is_told or roundings != every[dtype] else "", dtype)
        for dtype, roundings in directions.items()
    )
    return "; ".join(
        _joined(dtypes) + (f": {roundings}" if roundings else "")
        for roundings, dtypes in alike.items()
    )


def _joined(names: Iterable[str]) -> str:
    """Conversions, those that share sources, targets and options together; types as they are."""
    parts = [name.partition(", ") for name in names]
    options = _grouped((types.partition(" to ")[::2], option) for types, _, option in parts)
    targets = _grouped(((source, tuple(own)), target) for (source, target), own in options.items())
    sources = _grouped(((", ".join(to), found), source) for (source, found), to in targets.items())
    return "; ".join(
        ", ".join(own) + (f" to {into}" if into else "") + _options(found)
        for (into, found), own in sources.items()
    )


def _options(found: tuple[str, ...]) -> str:
    named = ", ".join(option for option in found if option)
    if not named:
        return ""
    return f" (also {named})" if "" in found else f" ({named})"


def _example(verdict: Any, types: str) -> str:
    """An operand, what it gives and what it should: numbers, or patterns if these read alike."""
    kinds = verdict["classes"]
    kind = next((kind for kind in kinds if "nan" not in kind), next(iter(kinds)))
    first = kinds[kind]["first"][0]
    given = f" {first['given']}" if "given" in first else ""
    given = re.sub(r"by scale (\S+) and zero point (\S+)", r"by (\1, \2)", given)
    of = f", {types}" if types else ""
    values, bits = ([str(first[name][part]) for name in ("x", "got", "want")] for part in PARTS)
    x, got, want = bits if values[1] == values[2] or "NaN" in values[0] else values
    return f"{x}{given}{of}: {got}, not {want}"


def _right(report: Any) -> str:
    return _named([verdict for verdict in report["verdicts"] if not verdict["wrong"]], report)


def _lacking(report: Any) -> str:
    """Conversions that a runtime lacks; of a type that it has none of, the type."""
    pairs = [_types(verdict) for verdict in report["verdicts"]]
    names = {row["dtype"].partition(",")[0] for row in report["lacking"]}
    whole, left = list[str](), list[str]()
    for name in sorted(names - {" to ".join(pair) for pair in pairs}):
        source, target = (parts := name.split(" to "))[0], parts[-1]
        if not any(source in pair for pair in pairs):
            whole.append(source)
        elif not any(target in pair for pair in pairs):
            whole.append(target)
        elif not any(source == pair[0] for pair in pairs):
            whole.append(f"from {source}")
        elif not any(target == pair[-1] for pair in pairs):
            whole.append(f"to {target}")
        else:
            left.append(name)
    types = sorted(dict.fromkeys(whole), key=lambda name: " " in name)
    return "; ".join(part for part in (", ".join(types), _joined(left)) if part)


def _machine() -> str:
    names = [
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    return f"{platform.system()} on {platform.machine()} ({names[0] if names else 'unknown'})"


if __name__ == "__main__":
    sys.exit(main())
