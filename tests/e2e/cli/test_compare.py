"""``tensor-round compare`` as people call it: files, exit codes, what it says."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tensor_round as tr
from support.cases.descriptors import WORDS
from support.command_line import limited, said

X = np.array([[-2.5, -0.3, 0.5], [1.5, 2.5, np.nan]], np.float32)
AWAY = np.array([[-3, -0.0, 1], [2, 3, np.nan]], np.float32)


def compare(folder: Path, *arguments: str, given: bytes = b"") -> subprocess.CompletedProcess[str]:
    """The command in a folder, with no service to ask."""
    done = said("compare", *arguments, url="http://127.0.0.1:9", given=given, folder=folder)
    assert "Traceback" not in done.stderr
    return done


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    np.save(tmp_path / "a.npy", X)
    np.save(tmp_path / "away.npy", AWAY)
    return tmp_path


def test_an_operator_that_turned_one_into_the_other(folder: Path) -> None:
    done = compare(folder, "a.npy", "away.npy")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "away.npy is a.npy rounded ties_to_away",
        f"operators: {', '.join(WORDS['ties_to_away'])}",
    ]


def test_but_for_an_element(folder: Path) -> None:
    np.save(folder / "b.npy", np.where(X == 2.5, np.float32(2), AWAY))
    done = compare(folder, "a.npy", "b.npy")
    assert done.returncode == 1
    assert done.stdout.splitlines()[0] == (
        "b.npy is a.npy rounded ties_to_away, but for 1 of 6 elements, 1 of the exact ties; "
        "first [1, 1]: x 2.5, b 2.0, expected 3.0"
    )
    report = json.loads(compare(folder, "a.npy", "b.npy", "--json").stdout)
    assert report == json.loads(
        json.dumps(tr.compare(X, np.load(folder / "b.npy")).named("a.npy", "b.npy").as_data())
    )


def test_where_operators_differ(folder: Path) -> None:
    done = compare(folder, "a.npy")
    assert (done.returncode, done.stdout) == (0, f"{tr.compare(X)}\n")
    report = json.loads(compare(folder, "a.npy", "--json").stdout)
    assert tr.Differences.from_data(report) == tr.compare(X)


def test_fortran_big_endian_and_a_pipe(folder: Path) -> None:
    np.save(folder / "b.npy", np.asfortranarray(AWAY.astype(">f4")))
    given = (folder / "a.npy").read_bytes()
    done = compare(folder, "-", "b.npy", given=given)
    assert done.stdout.startswith("b.npy is standard input rounded ties_to_away")


def test_types_that_npy_has_no_name_for(folder: Path) -> None:
    a = np.array([0.5, 1.5, -0.5], ml_dtypes.bfloat16)
    np.save(folder / "a.npy", a)
    np.save(folder / "b.npy", np.array([0, 2, -0.0], ml_dtypes.bfloat16))
    done = compare(folder, "a.npy", "b.npy", "--dtype", "bfloat16")
    assert done.stdout.startswith("b.npy is a.npy rounded ties_to_even\noperators: onnx, openvino:")
    done = compare(folder, "a.npy", "b.npy")
    assert done.returncode == 2
    assert "--dtype: a.npy: the file states its elements as <V2" in done.stderr


BAD: dict[str, tuple[Any, str]] = {
    "no-npy": (b"no such thing", "for B: b.npy: this is not a .npy file"),
    "dtype": (np.zeros((2, 3), "f2"), "for B: b has dtype float16, a has float32"),
    "none": (None, "for B: b.npy: No such file"),
}


@pytest.mark.parametrize(("given", "why"), BAD.values(), ids=BAD)
def test_wrong_usage(folder: Path, given: Any, why: str) -> None:
    if isinstance(given, bytes):
        (folder / "b.npy").write_bytes(given)
    elif given is not None:
        np.save(folder / "b.npy", given)
    done = compare(folder, "a.npy", "b.npy")
    assert (done.returncode, done.stdout) == (2, "")
    assert f"Invalid value {why}" in " ".join(done.stderr.split())
    error = json.loads(compare(folder, "a.npy", "b.npy", "--json").stderr)["error"]
    assert error["kind"] == "UsageError"
    assert why in error["detail"]


def test_a_rank_that_no_operator_takes(folder: Path) -> None:
    np.save(folder / "a.npy", np.zeros((1,) * 33))
    done = compare(folder, "a.npy")
    assert done.returncode == 2
    assert "for A: a.npy: " in done.stderr


@pytest.mark.slow
def test_files_larger_than_memory_allows(tmp_path: Path) -> None:
    """Private memory may grow by less than half of either file."""
    size = 12 << 18
    ties = len(range(1, size, 1001)) + 1
    for name in ("a", "b"):
        file = np.lib.format.open_memmap(tmp_path / f"{name}.npy", "w+", "<f4", (size,))
        file[1::1001] = 2.5 if name == "a" else 3
        file[-1] = 0.5
    for names, told in (
        (["a.npy"], f"ties_to_even and ties_to_away differ in {ties:,} elements, all exact ties"),
        (
            ["a.npy", "b.npy"],
            f"but for 1 of {size:,} elements, 1 of the exact ties; first [{size - 1}]",
        ),
    ):
        done = limited(6 << 20, "compare", *names, folder=tmp_path)
        assert done.returncode == len(names) - 1, done.stderr
        assert told in done.stdout
