"""examples/: every program runs against a real service and prints what it should."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.pages import EXAMPLES, OUTPUT, PROGRAMS, Program, python
from support.services.server import Service

#: Run by tests/interop/oracles/test_howto.py and tests/interop/ray/test_ray.py: what they need
#: is not light.
ELSEWHERE = {
    "torch_tensor.py": "torch",
    "onnx_graph.py": "onnx",
    "ray_data.py": "ray[data]",
    "dask_blocks.py": "dask",
}


def programs() -> list[Path]:
    return sorted(path for path in EXAMPLES.iterdir() if path.suffix != ".md")


def test_python_example_prints_its_stated_output(tmp_path: Path, service: Service) -> None:
    assert python("numpy_array.py", tmp_path, service.url).splitlines() == [
        "OnnxRound [-2. -0.  0.  2.  2.]",
        "OpenVINORound [-3. -0.  1.  2.  3.]",
        "DirectMLRound [-2. -0.  0.  1.  2.]",
        "[0.3125 448] [0.3125 nan]",
        "[[ True  True]]",
        "[-3. -1.  0.  1.  2.]",
    ]


@pytest.mark.not_behind("unix", reason="the programs' HTTP clients are given a host and a port")
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.source)
def test_program_in_another_language_prints_its_stated_output(
    program: Program, tmp_path: Path, service: Service
) -> None:
    if reason := program.missing():
        pytest.skip(reason)
    assert program.run(tmp_path, service.url) == OUTPUT
    assert program.run(tmp_path, f"{service.url}/") == OUTPUT


@pytest.mark.not_behind("unix", reason="as above")
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.source)
def test_program_in_another_language_prints_why_it_was_refused(
    program: Program, tmp_path: Path, service: Service
) -> None:
    if reason := program.missing():
        pytest.skip(reason)
    source = (EXAMPLES / program.source).read_text().replace("TOWARD_INFINITY", "UPWARD")
    with pytest.raises(AssertionError, match=r"did you mean|ELEMENT_WISE_ROUND takes"):
        program.run(tmp_path, service.url, source)


def test_every_example_is_run_by_a_test() -> None:
    run = {"numpy_array.py", *ELSEWHERE, *(program.source for program in PROGRAMS)}
    assert {path.name for path in programs()} == run
    for name, package in ELSEWHERE.items():
        assert f"\n# needs {package}\n" in (EXAMPLES / name).read_text()


def test_every_example_is_short_and_in_the_table() -> None:
    table = (EXAMPLES / "README.md").read_text()
    for path in programs():
        assert len(path.read_text().splitlines()) <= 60, path
        assert f"| [{path.name}]({path.name}) | " in table, path
