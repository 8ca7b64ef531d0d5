"""Models and inputs of strangers, as far as no runtime is needed: each ends in one line.

tests/interop/oracles/test_hostile_models.py has such models in real runtimes.
"""

from __future__ import annotations

import io
import os
import zipfile
from pathlib import Path

import pytest

from tensor_round_verify import CannotVerify, verify_model

MODEL = """{"type": "DML_OPERATOR_ELEMENT_WISE_ROUND", "desc": {
    "InputTensor": {"DataType": "FLOAT32", "Sizes": [2]},
    "OutputTensor": {"DataType": "FLOAT32", "Sizes": [2]}, "RoundingMode": "TOWARD_ZERO"}}"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "dx.json"
    path.write_text(MODEL)
    return path


def npy(shape: str, descr: str = "<f4") -> bytes:
    """A .npy file with this header, and 8 bytes of data."""
    text = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}}}\n".encode()
    return b"\x93NUMPY\1\0" + len(text).to_bytes(2, "little") + text + bytes(8)


def archive(content: bytes, *, method: int = 0, encrypted: bool = False) -> bytes:
    """A .npz file with this entry, whose method and encryption are as both of its heads say."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as written:
        written.writestr("x.npy", content)
    data = bytearray(file.getvalue())
    for head, flags in ((0, 6), (data.find(b"PK\1\2"), 8)):
        data[head + flags] |= encrypted
        data[head + flags + 2] = method
    return bytes(data)


NOT_NUMBERS = {
    "empty": b"",
    "cut": b"PK\x03\x04 cut",
    "pickle": b"\x80\x04",
    "short": archive(npy("(3,)")),
    "huge": archive(npy(f"({1 << 45},)")),
    "huge-alone": npy(f"({1 << 45},)"),
    "beyond-64-bits": archive(npy(f"({1 << 70},)")),
    "negative": archive(npy("(-2,)")),
    "no-shape": archive(npy("('a',)")),
    "objects": archive(npy("(1,)", "|O")),
    "encrypted": archive(npy("(2,)"), encrypted=True),
    "no-deflate": archive(npy("(2,)"), method=zipfile.ZIP_DEFLATED),
    "no-bzip2": archive(npy("(2,)"), method=zipfile.ZIP_BZIP2),
    "no-lzma": archive(npy("(2,)"), method=zipfile.ZIP_LZMA),
    "other-method": archive(npy("(2,)"), method=99),
    "no-npy": archive(b"text"),
}


@pytest.mark.parametrize("content", NOT_NUMBERS.values(), ids=NOT_NUMBERS)
def test_inputs_of_a_stranger_are_rejected_in_one_line(model: Path, content: bytes) -> None:
    path = model.parent / "x.npz"
    path.write_bytes(content)
    with pytest.raises(CannotVerify, match=r"x.npz (is not a .npz|cannot be read)"):
        verify_model(model, path, ["numpy"])


def test_missing_inputs_are_rejected(model: Path) -> None:
    with pytest.raises(CannotVerify, match="cannot be read: No such file"):
        verify_model(model, model.parent / "x.npz", ["numpy"])


@pytest.mark.skipif(os.name != "posix", reason="named pipes are POSIX's")
def test_pipe_is_no_model_and_no_input(model: Path) -> None:
    path = model.parent / "x.npz"
    os.mkfifo(path)  # nobody writes into it
    with pytest.raises(CannotVerify, match=r"x\.npz is not a file"):
        verify_model(model, path, ["numpy"])
    fifo = path.rename(path.with_suffix(".json"))
    with pytest.raises(CannotVerify, match=r"there is no file .*x\.json"):
        verify_model(fifo, {}, ["numpy"])


#: What a reader does, as its module; how its process ends.
READERS = {
    "never-ends": ("while True: pass", "reading .*a.onnx did not finish within 1 s"),
    "dies": (
        "import os, sys; sys.stderr.write('told\\nbad\\n'); sys.stderr.flush(); os.abort()",
        "reading .*a.onnx: its process (was )?ended .*: bad",
    ),
    "leaves": ("import os; os._exit(7)", "its process ended with exit code 7"),
    "fails": ("raise MemoryError", "a.onnx is not a valid model: MemoryError"),
    "prints": ("print('hello', flush=True); 1 / 0", "a.onnx is not a valid model: Zero"),
}


@pytest.mark.parametrize(("module", "why"), READERS.values(), ids=READERS)
def test_a_model_s_process_ends_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, why: str
) -> None:
    (tmp_path / "onnx.py").write_text(module)
    (tmp_path / "a.onnx").write_bytes(b"")
    monkeypatch.syspath_prepend(tmp_path)
    timeout = 1 if "while" in module else 30
    with pytest.raises(CannotVerify, match=why):
        verify_model(tmp_path / "a.onnx", {}, ["numpy"], timeout=timeout)


@pytest.mark.parametrize(("name", "package"), [("a.onnx", "onnx"), ("a.xml", "openvino")])
def test_missing_package_is_named_with_its_install_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, package: str
) -> None:
    (tmp_path / f"{package}.py").write_text("raise ImportError('broken')")
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / name).write_bytes(b"")
    told = (
        rf"{name} is read by the package {package} \(ImportError: broken\); pip install {package}"
    )
    with pytest.raises(CannotVerify, match=told):
        verify_model(tmp_path / name, {}, ["numpy"])
