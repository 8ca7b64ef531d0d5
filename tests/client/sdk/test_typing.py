"""What a type checker makes of calls: wrong names are refused before anything runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import pytest

from tensor_round import names
from tensor_round.dtypes import DTYPES
from tensor_round.operators import DIALECTS, directml, onnx
from tensor_round.rounding import Rounding

RIGHT = """
import numpy as np
import tensor_round as tr

x = np.zeros(3, np.float32)
with tr.Client("http://host") as client:
    y: np.ndarray[tuple[int], np.dtype[np.float32]] = client.round(x)
    client.round(x, "ties_to_away")
    client.round(x, rounding="toward_zero", out=x)
    client.round(x, tr.Rounding.TIES_TO_EVEN)
    client.round(x, tr.OnnxRound(opset_version=22))
    client.round(x, tr.OpenVINORound(mode="half_away_from_zero"))
    client.round(x, tr.DirectMLRound("TOWARD_ZERO", feature_level="3_0"))
    client.round(x, tr.DirectMLRound(2, feature_level=0x3000))


async def main() -> None:
    async with tr.AsyncClient("http://host", timeout=None) as client:
        y: np.ndarray[tuple[int], np.dtype[np.float32]] = await client.round(x, "ties_to_even")
"""
WRONG = [
    'client.round(x, "nearest")',
    'client.round(x, rounding="half_to_even")',
    "client.round(x, 2)",
    'tr.IEEE754Round("up")',
    "tr.OnnxRound(opset_version=10)",
    'tr.OpenVINORound(mode="HALF_TO_EVEN")',
    'tr.DirectMLRound("CEIL")',
    'tr.DirectMLRound(feature_level="1_0")',
    'tr.Client("http://host", timeout="5")',
    'tr.Client("http://host", retries=None)',
    "client.timeout",
]


def test_right_calls_pass_and_each_wrong_one_is_refused(tmp_path: Path) -> None:
    (tmp_path / "right.py").write_text(RIGHT)
    wrong = ["import numpy as np", "import tensor_round as tr", "x = np.zeros(3, np.float32)"]
    wrong += ["client = tr.Client()", *WRONG]
    (tmp_path / "wrong.py").write_text("\n".join(wrong) + "\n")
    mypy = [sys.executable, "-m", "mypy", "--strict", "--config-file", "/dev/null"]
    done = subprocess.run(
        [*mypy, "--cache-dir", tmp_path / "cache", "right.py", "wrong.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    lines = [line for line in done.stdout.splitlines() if " error: " in line]
    assert not [line for line in lines if not line.startswith("wrong.py")], done.stdout
    refused = {int(line.split(":")[1]) for line in lines}
    assert refused == set(range(5, 5 + len(WRONG))), done.stdout


TABLES: dict[str, tuple[Any, set[str | int]]] = {
    "directions": (names.RoundingName, {rounding.value for rounding in Rounding}),
    "dtypes": (names.DTypeName, {dtype.name for dtype in DTYPES}),
    "opsets": (names.OnnxOpset, {n for version in onnx.VERSIONS for n in version.selected_by}),
    "openvino": (names.OpenVINOMode, set(DIALECTS["openvino"].modes)),
    "directml": (names.DirectMLMode, set(directml.MODES.spellings)),
    "levels": (names.FeatureLevel, set(directml.LEVELS.spellings)),
}


@pytest.mark.parametrize(("literal", "table"), TABLES.values(), ids=TABLES)
def test_the_types_say_what_the_tables_say(literal: Any, table: set[str | int]) -> None:
    assert set(get_args(literal)) == table
