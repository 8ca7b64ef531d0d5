"""Triton's own load generator, the binary, pointed at the service."""

from __future__ import annotations

import csv
import os
import subprocess
from pathlib import Path

import pytest

from support.services.server import Service

TOOL = Path(os.environ["PERF_ANALYZER"])


OVER_HTTP = ["-i", "http"]
OVER_GRPC = ["-i", "grpc"]


@pytest.mark.parametrize(
    "transport",
    [
        pytest.param(OVER_HTTP, id="http"),
        pytest.param([*OVER_HTTP, "--output-tensor-format=json"], id="json"),
        pytest.param(OVER_GRPC, id="grpc"),
        pytest.param([*OVER_GRPC, "--async", "--streaming"], id="stream"),
        pytest.param([*OVER_GRPC, "--grpc-compression-algorithm=gzip"], id="gzip"),
    ],
)
@pytest.mark.parametrize(
    "options",
    [
        pytest.param(["-m", "round", "--shape", "X:1024"], id="1024"),
        pytest.param(["-m", "round", "--shape", "X:4"], id="4"),
        pytest.param(["-m", "onnx_round", "-x", "11", "--shape", "X:16,16"], id="version"),
        pytest.param(
            ["-m", "directml_element_wise_round", "-x", "2_1", "--shape", "InputTensor:1,2,3,4"],
            id="rank-4",
        ),
        pytest.param(["-m", "round", "--shape", "X:1024", "--concurrency-range", "4:4"], id="four"),
    ],
)  # fmt: skip
def test_it_measures(
    service: Service, tmp_path: Path, transport: list[str], options: list[str]
) -> None:
    report = tmp_path / "report.csv"
    ran = subprocess.run(
        [
            TOOL,
            "-u",
            f"127.0.0.1:{service.port}",
            "-f",
            report,
            *transport,
            "--measurement-mode",
            "count_windows",
            "--measurement-request-count",
            "50",
            "--stability-percentage",
            "999",
            *options,
        ],
        capture_output=True,
        text=True,
        timeout=100,
        env={**os.environ, "LD_LIBRARY_PATH": str(TOOL.absolute().parents[1] / "lib")},
    )
    told = ran.stdout + ran.stderr
    assert ran.returncode == 0, told
    assert "had error" not in told, told
    (row,) = csv.DictReader(report.read_text().splitlines())
    assert float(row["Inferences/Second"]) > 0
    # What the service says of itself, which it asks for before and after; it takes versions
    # for numbers, and finds nothing of 2_1.
    assert float(row["Server Compute Input"]) > 0 or "2_1" in options
