"""The how-to pages and the examples that need other runtimes, run with them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx
import onnx.parser
import onnxruntime
import pytest

import tensor_round_verify as conformance
from support.pages import ROOT, Reader, blocks, python
from support.services.server import Service


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    with Service() as running:
        yield running


@pytest.mark.parametrize(
    "page",
    ["directml-to-onnx", "find-the-wrong-runtime", "port-a-quantized-model", "large-arrays"],
)
def test_a_page_with_its_runtimes(page: str, tmp_path: Path, service: Service) -> None:
    ran = 0
    with Reader(tmp_path, Path(sys.executable).parent) as reader:
        for block in blocks(f"docs/howto/{page}.md"):
            if block.language in ("sh", "python"):
                reader.read(block, service.url)
                ran += bool(block.needs)
    assert ran >= 1


@pytest.mark.parametrize("page", ["find-the-wrong-runtime", "port-a-quantized-model"])
def test_the_model_has_the_verdicts_that_the_page_shows(page: str, tmp_path: Path) -> None:
    made, run, shown, *_ = blocks(f"docs/howto/{page}.md")
    folder = Path(sys.executable).parent
    environment = {**os.environ, "PATH": os.pathsep.join((str(folder), os.environ["PATH"]))}
    printed = ""
    for words in ([sys.executable, "-c", made.text], ["sh", "-c", run.text]):
        printed = subprocess.check_output(words, cwd=tmp_path, env=environment, text=True)
    lines = unversioned(printed)
    told = [line for line in unversioned(shown.text) if line.strip() != "…"]
    assert [line for line in told if line not in lines] == []


def unversioned(text: str) -> list[str]:
    return re.sub(r" \d+\.\d+\.\d+", "", text).splitlines()


def test_the_other_order_of_where_loses_signs_as_the_page_says() -> None:
    page = "docs/howto/directml-to-onnx.md"
    (text,) = [b.text for b in blocks(page) if "parse_model" in b.text]
    lines = [line.strip() for line in text.partition('("""')[2].partition('""")')[0].splitlines()]
    graph = "\n".join(lines).replace("Greater (x, zero)", "Less (x, zero)")
    graph = graph.replace("Where (positive, down, up)", "Where (positive, up, down)")
    session = onnxruntime.InferenceSession(onnx.parser.parse_model(graph).SerializeToString())
    asked: Any = {"dtypes": ["float32"], "roundings": ["ties_to_away"], "nans": "quiet"}
    report = conformance.verify(lambda x: session.run(None, {"x": x})[0], **asked)
    told = str(report.verdicts[0].explanation).removeprefix("this is ")
    assert told == "zero's sign lost by all but -0.0"
    assert f"`{told}`" in (ROOT / page).read_text()


def test_torch(tmp_path: Path, service: Service) -> None:
    assert python("torch_tensor.py", tmp_path, service.url).splitlines() == [
        "dtype torch.bfloat16",
        "numbers that differ: 0",
        "NaNs that differ: 253",
        "torch's NaNs: ['0xffff']",
    ]


def test_onnx(tmp_path: Path, service: Service) -> None:
    printed = python("onnx_graph.py", tmp_path, service.url)
    assert printed.startswith("quantize [")
    assert printed.endswith("] right\n")
