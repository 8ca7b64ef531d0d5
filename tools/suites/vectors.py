"""The operands that a suite lacks, with their right results, as files in the suite's own format."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tensor_round.contract.dtypes import BY_NAME
from tensor_round.contract.operators.dialects.onnx import NUMBERS
from tensor_round.contract.operators.dialects.stablehlo import DTYPES
from tensor_round.contract.operators.operator import name_in
from tensor_round_verify.reference import WIDTHS, Bits
from tensor_round_verify.runtimes.onnx_model import OPERATORS, rounding_model

from .published import numbers
from .score import Score


def write(folder: Path, scores: list[Score]) -> list[Path]:
    """Write the vectors of each suite that has a format for them; returns the files."""
    files = []
    for score in scores:
        if score.suite.name in WRITERS:
            files += WRITERS[score.suite.name](folder, score)
    return files


def _onnx(folder: Path, score: Score) -> list[Path]:
    """A folder of a model and a test_data_set_0, as onnx.backend.test reads it."""
    from onnx import TensorProto, numpy_helper

    case = folder / "onnx" / f"test_{score.suite.operator.lower()}_edges_{score.dtype}"
    data = case / "test_data_set_0"
    data.mkdir(parents=True, exist_ok=True)
    files = {case / "model.onnx": rounding_model(OPERATORS[score.suite.rounding], score.dtype)}
    for name, stem, bits in zip("xy", ("input_0", "output_0"), _pair(score), strict=True):
        tensor: Any = numpy_helper.from_array(bits.view(BY_NAME[score.dtype].numpy), name)
        if tensor.data_type != NUMBERS[score.dtype]:
            raise TypeError(f"{score.dtype} became {TensorProto.DataType.Name(tensor.data_type)}")
        files[data / f"{stem}.pb"] = tensor.SerializeToString()
    for path, content in files.items():
        path.write_bytes(content)
    return list(files)


def _webnn(folder: Path, score: Score) -> list[Path]:
    """An array of tests as in webnn/conformance_tests, one for each operand and one for all."""
    operator = score.suite.operator
    x, y = (numbers(bits, score.dtype).tolist() for bits in _pair(score))
    path = folder / "webnn" / f"{operator}_edges_{score.dtype}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    given, taken = f"{operator}Input", f"{operator}Output"
    tests = []
    for name, data, right in (
        ("tensor", x, y),
        *((str(one), [one], [other]) for one, other in zip(x, y, strict=True)),
    ):
        descriptor = {"shape": [len(data)], "dataType": score.dtype}
        tests.append(
            {
                "name": f"{operator} {score.dtype} 1D edges, {name}",
                "graph": {
                    "inputs": {given: {"data": data, "descriptor": descriptor}},
                    "operators": [
                        {"name": operator, "arguments": [{"input": given}], "outputs": taken}
                    ],
                    "expectedOutputs": {taken: {"data": right, "descriptor": descriptor}},
                },
            }
        )
    path.write_text(json.dumps(tests, indent=2, allow_nan=False) + "\n")
    return [path]


def _stablehlo(folder: Path, score: Score) -> list[Path]:
    """A function for stablehlo-translate --interpret; constants are patterns."""
    operator, element = score.suite.operator, name_in(DTYPES, score.dtype)
    x, y = _pair(score)
    kind = f"tensor<{x.size}x{element}>"
    given, right = (_dense(bits, score.dtype) for bits in (x, y))
    path = folder / "stablehlo" / f"{operator}_edges_{element}.mlir"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"""\
// RUN: stablehlo-translate --interpret -split-input-file %s

func.func @{operator}_op_test_edges_{element}() {{
  %operand = stablehlo.constant dense<{given}> : {kind}
  %result = stablehlo.{operator} %operand : {kind}
  check.expect_almost_eq_const %result, dense<{right}> : {kind}
  func.return
}}
""")
    return [path]


def _dense(bits: Bits, dtype: str) -> str:
    digits = WIDTHS[dtype] // 4
    return f"[{', '.join(f'0x{pattern:0{digits}X}' for pattern in bits.tolist())}]"


def _pair(score: Score) -> tuple[Bits, Bits]:
    x = np.ascontiguousarray(score.closing)
    return x, score.suite.right(score.dtype, x)


#: The formats. The Array API's suite draws its operands, and has no vectors.
WRITERS: dict[str, Callable[[Path, Score], list[Path]]] = {
    "ONNX": _onnx,
    "WebNN (WPT)": _webnn,
    "StableHLO": _stablehlo,
}
