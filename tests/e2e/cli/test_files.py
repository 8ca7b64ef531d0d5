"""``tensor-round round``, ``execute`` and ``compare``: files, pipes, exit codes, messages."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tensor_round as tr
from support.cases.array_cases import bits, expected_bits, patterns
from support.cases.backend_calls import expected
from support.cases.descriptors import DOCUMENTS, STRIDED, WORDS, call_of, ieee754, payload_of
from support.cases.dialect import Document
from support.command_line import bad, command, good, limited, said
from support.http.proxy import Fault, Proxy
from support.services.server import Service

FILES = {
    "fortran": lambda x: np.asfortranarray(x),
    "big-endian": lambda x: x.astype(x.dtype.newbyteorder(">")),
}


@pytest.mark.parametrize("make", FILES.values(), ids=FILES)
def test_a_file_becomes_a_file_alike(service: Service, tmp_path: Path, make: Any) -> None:
    x = make(patterns("float32", 60).reshape(6, 10))
    np.save(tmp_path / "in.npy", x)
    good("round", tmp_path / "in.npy", tmp_path / "out.npy", "--rounding", "ties_to_away",
         url=service.url)  # fmt: skip
    y = np.load(tmp_path / "out.npy")
    assert (y.dtype, y.shape, y.flags.f_contiguous) == (x.dtype, x.shape, x.flags.f_contiguous)
    assert np.array_equal(bits(y), expected_bits(x, "ties_to_away"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.npy", "out.npy"]


@pytest.mark.parametrize("make", FILES.values(), ids=FILES)
def test_cast_file_has_the_shape_and_order_of_its_operand(
    service: Service, tmp_path: Path, make: Any
) -> None:
    x = make(np.linspace(-500, 500, 60, dtype=np.float32).reshape(6, 10))
    np.save(tmp_path / "in.npy", x)

    def cast(*arguments: Any) -> Any:
        files = tmp_path / "in.npy", tmp_path / "out.npy"
        report = good("cast", *files, "--json", "--tile-bytes", 50, *arguments, url=service.url)
        y = np.load(tmp_path / "out.npy")
        assert (y.shape, y.flags.f_contiguous) == (x.shape, x.flags.f_contiguous)
        return json.loads(report.stdout), y

    report, y = cast("--to", "float64")
    assert y.dtype.str == x.dtype.str.replace("4", "8")
    assert np.array_equal(y, x)
    assert (report["operator"], report["dtype"], report["to"]) == (
        "ties_to_even",
        "float32",
        "float64",
    )
    assert (report["bytes"], report["shape"]) == (240, [6, 10])
    fp8 = ml_dtypes.float8_e4m3fn
    for options, saturate in ((["--operator", "onnx:24"], True), (["--no-saturate"], False)):
        report, y = cast("--to", "float8_e4m3fn", *options)
        assert y.dtype.str == "|V1"
        assert np.array_equal(y.view(fp8), tr.cast(x, fp8, saturate=saturate), equal_nan=True)
    _, y = cast("--to", "int8", "--rounding", "toward_negative")
    assert np.array_equal(y, np.clip(np.floor(x), -128, 127).astype(np.int8))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.npy", "out.npy"]


def test_files_are_quantized_and_dequantized(service: Service, tmp_path: Path) -> None:
    x = np.linspace(-5, 5, 60, dtype=np.float32).reshape(6, 10)
    scales, points = np.linspace(0.1, 0.6, 6, dtype=np.float32), np.arange(6).astype("i1")
    for name, array in (("x", x), ("s", scales), ("z", points)):
        np.save(tmp_path / f"{name}.npy", array)
    np.save(tmp_path / "z4.npy", points.astype(ml_dtypes.int4))

    def run(name: str, source: str, *options: Any) -> Any:
        report = good(name, tmp_path / source, tmp_path / "out.npy", "--json", "--tile-bytes", 50,
                      *options, url=service.url)  # fmt: skip
        return json.loads(report.stdout)["to"], np.load(tmp_path / "out.npy")

    files = ("--scale", tmp_path / "s.npy", "--zero-point", tmp_path / "z.npy", "--axis", 0)
    to, codes = run("quantize", "x.npy", *files)
    assert to == "int8"
    assert np.array_equal(codes, tr.quantize(x, scales, points, axis=0))
    to, y = run("fake-quantize", "x.npy", *files)
    assert to == "float32"
    np.save(tmp_path / "codes.npy", codes)
    assert np.array_equal(run("dequantize", "codes.npy", *files)[1], y)
    files = (*files[:3], tmp_path / "z4.npy", *files[4:])
    to, narrow = run("quantize", "x.npy", *files, "--to", "int4")
    assert (to, narrow.dtype.str) == ("int4", "|V1")
    _, codes = run("quantize", "x.npy", "--scale", 0.5, "--zero-point", -3, "--to", "int16")
    assert np.array_equal(codes, tr.quantize(x, 0.5, -3, to="int16"))
    assert codes.dtype == np.int16


def test_cast_of_a_type_that_npy_has_no_name_for_into_its_own_file(
    service: Service, tmp_path: Path
) -> None:
    x = np.linspace(-9, 9, 50).astype(ml_dtypes.bfloat16)
    np.save(tmp_path / "x.npy", x)
    own = ("cast", tmp_path / "x.npy", tmp_path / "x.npy", "--to", "float32")
    bad(2, "--dtype", *own, url=service.url)
    good(*own, "--dtype", "bfloat16", url=service.url)
    assert np.array_equal(np.load(tmp_path / "x.npy"), x.astype(np.float32))


def test_file_is_rounded_by_any_operator_to_integral_values(tmp_path: Path) -> None:
    x = np.linspace(-9, 9, 50, dtype=np.float32)
    np.save(tmp_path / "in.npy", x)
    files = tmp_path / "in.npy", tmp_path / "out.npy"
    good("round", *files, "--operator", "onnx:Floor", url="local:")
    assert np.array_equal(np.load(files[1]), np.floor(x))


def test_the_file_may_be_its_own_target(service: Service, tmp_path: Path) -> None:
    x = patterns("float64", 50)
    np.save(tmp_path / "x.npy", x)
    (tmp_path / "link.npy").symlink_to("x.npy")
    own = ("round", tmp_path / "x.npy", tmp_path / "link.npy")
    good(*own, url=service.url)
    assert (tmp_path / "link.npy").is_symlink()
    assert np.array_equal(bits(np.load(tmp_path / "x.npy")), expected_bits(x))


def test_pipes(service: Service, tmp_path: Path) -> None:
    x = np.asfortranarray(patterns("float16", 60).reshape(6, 10))
    np.save(tmp_path / "in.npy", x)
    done = good("round", "-", "-", "--json", "--tile-bytes", 50, url=service.url,
                given=(tmp_path / "in.npy").read_bytes())  # fmt: skip
    (tmp_path / "out.npy").write_bytes(done.stdout)
    assert np.array_equal(bits(np.load(tmp_path / "out.npy")), expected_bits(x))
    assert json.loads(done.stderr)["output"] == "-"
    done = good("round", tmp_path / "in.npy", "-", "--tile-bytes", 50, url=service.url)
    assert done.stdout == (tmp_path / "out.npy").read_bytes()


def test_a_report_as_json(service: Service, tmp_path: Path) -> None:
    np.save(tmp_path / "in.npy", np.zeros((2, 3), "<f2"))
    done = good("round", tmp_path / "in.npy", tmp_path / "out.npy", "--json", "--digest",
                "--operator", "directml:2", url=service.url)  # fmt: skip
    report = json.loads(done.stdout)
    assert (report["dtype"], report["shape"], report["bytes"]) == ("float16", [2, 3], 12)
    assert (report["operator"], report["rounding"]) == ("directml:2", "ties_to_away")
    assert report["seconds"] >= 0


def test_a_file_larger_than_memory_allows(service: Service, tmp_path: Path) -> None:
    """Mapped in and out: private memory may not hold the tensor even once."""
    x = np.lib.format.open_memmap(tmp_path / "in.npy", "w+", "<f4", (40 << 18,))
    x[::1001] = 0.5
    url = {"TENSOR_ROUND_URL": service.url}
    for command_line in (["round"], ["cast", "--to", "float64"]):
        done = limited(32 << 20, *command_line, "in.npy", "out.npy", folder=tmp_path, **url)
        assert done.returncode == 0, done.stderr
        found = np.load(tmp_path / "out.npy", mmap_mode="r")
        assert (found[::1001] == (0 if command_line == ["round"] else 0.5)).all()
        assert np.count_nonzero(found[1:1001]) == 0


def test_half_a_file_is_never_left(service: Service, tmp_path: Path) -> None:
    np.save(tmp_path / "in.npy", patterns("float32", 1000))
    (tmp_path / "out.npy").write_bytes(b"what was there")
    with Proxy(service.address, lambda _: Fault(cut_down=2000)) as proxy:
        bad(1, "closed the", "round", tmp_path / "in.npy", tmp_path / "out.npy", url=proxy.url)
    assert (tmp_path / "out.npy").read_bytes() == b"what was there"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.npy", "out.npy"]


@pytest.mark.parametrize("form", [(), ("--json",)], ids=["text", "json"])
def test_full_disk_is_a_message(service: Service, tmp_path: Path, form: tuple[str, ...]) -> None:
    np.save(tmp_path / "in.npy", np.zeros(1 << 20, "<f4"))
    done = subprocess.run(
        [sys.executable, "-m", "tensor_round", "round", "in.npy", "out.npy", *form],
        cwd=tmp_path,
        env={**os.environ, "TENSOR_ROUND_URL": service.url, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20)),
        timeout=60,
    )
    assert (done.returncode, b"Traceback" in done.stderr) == (1, False), done.stderr
    if form:
        assert json.loads(done.stderr)["error"]["kind"] == "OSError"
    else:
        assert done.stderr.startswith(b"tensor-round: ")
    assert [path.name for path in tmp_path.iterdir()] == ["in.npy"]


def execute(
    folder: Path, document: Document | str, payload: bytes, *arguments: str, url: str
) -> subprocess.CompletedProcess[bytes]:
    text = document if isinstance(document, str) else json.dumps(document)
    (folder / "round.json").write_text(text)
    (folder / "in.bin").write_bytes(payload)
    return command(
        "execute",
        "--descriptor",
        "round.json",
        *arguments,
        url=url,
        given=payload,
        folder=folder,
        COLUMNS="300",
    )


def test_bytes_may_be_files(service: Service, tmp_path: Path) -> None:
    """In pipes tests/e2e/rounding/test_every_way.py has them, in any layout."""
    for document in (STRIDED, DOCUMENTS["empty"]):
        call = call_of(document)
        payload = payload_of(call)
        done = execute(tmp_path, document, payload, "in.bin", "out.bin", url=service.url)
        assert done.returncode == 0, done.stderr
        assert (tmp_path / "out.bin").read_bytes() == expected(call, payload)


def test_a_file_may_be_its_own_target_and_needs_no_service(tmp_path: Path) -> None:
    call = call_of(DOCUMENTS["ieee754"])
    payload = payload_of(call)
    done = execute(
        tmp_path, DOCUMENTS["ieee754"], payload, "in.bin", "in.bin", "--json", url="local:"
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "in.bin").read_bytes() == expected(call, payload)
    report = json.loads(done.stdout)
    assert (report["dtype"], report["shape"], report["strides"]) == ("float32", [2, 3], [3, 1])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.bin", "round.json"]


def test_cast_by_a_descriptor_tells_both_types(tmp_path: Path) -> None:
    document = tr.OnnxCast("int8").descriptor("float16", (3,)).to_json().decode()
    payload = np.array([0.5, -2.5, 999], "<f2").tobytes()
    done = execute(tmp_path, document, payload, "in.bin", "out.bin", "--json", url="local:")
    assert done.returncode == 0, done.stderr
    assert np.fromfile(tmp_path / "out.bin", "i1").tolist() == [0, -2, 127]
    report = json.loads(done.stdout)
    assert (report["input_dtype"], report["dtype"]) == ("float16", "int8")
    assert (report["rounding"], report["byte_length"]) == ("toward_zero", 3)


WRONG: dict[str, tuple[Document | str, bytes, str]] = {
    "no-json": ("{", b"", "round.json: not JSON"),
    "length": (ieee754("float32", [3]), bytes(11), "in.bin: the payload must have 12 bytes"),
    "dialect": ({"a": 1}, b"", "round.json: dialect: is required: one of"),
}


@pytest.mark.parametrize(("document", "payload", "why"), WRONG.values(), ids=WRONG)
def test_each_mistake_is_named(
    tmp_path: Path, document: Document | str, payload: bytes, why: str
) -> None:
    done = execute(tmp_path, document, payload, "in.bin", "out.bin", "--json", url="local:")
    assert done.returncode == 2, done.stderr
    assert why in json.loads(done.stderr)["error"]["detail"]
    assert not (tmp_path / "out.bin").exists()


DXDISPATCH = """{ // as DxDispatch has it
    "type": "DML_OPERATOR_ELEMENT_WISE_ROUND", "desc": {
        "InputTensor": {"DataType": "FLOAT16", "Sizes": [3]},
        "OutputTensor": {"DataType": "FLOAT16", "Sizes": [3]}, "RoundingMode": "TOWARD_ZERO"}}"""


@pytest.mark.parametrize(
    "text",
    [DXDISPATCH, DXDISPATCH.replace("// as DxDispatch has it", ""), '{"dispatchables": {}}'],
    ids=["comments", "plain", "model"],
)
def test_dxdispatch_s_json_is_told_how_to_become_a_descriptor(tmp_path: Path, text: str) -> None:
    done = execute(tmp_path, text, b"", "in.bin", "out.bin", url="local:")
    assert done.returncode == 2
    told = done.stderr.decode().replace("│", "").split()
    assert " ".join(told[told.index("round.json") :]).startswith(
        "round.json is DxDispatch's JSON; to convert it, run python -c "
        "\"import tensor_round as tr; print(tr.from_dxdispatch('round.json')"
        '.descriptor().to_json().decode())" > descriptor.json'
    )


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


def test_operators_that_differ_on_a_file(folder: Path) -> None:
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
    "dtype": (np.zeros((2, 3), "i8"), "for B: b has dtype int64, a has float32"),
    "none": (None, "for B: b.npy: No such file"),
}


@pytest.mark.parametrize(("given", "why"), BAD.values(), ids=BAD)
def test_files_that_cannot_be_compared(folder: Path, given: Any, why: str) -> None:
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
    """Private memory may grow by less than either file."""
    size = 8 << 18
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
