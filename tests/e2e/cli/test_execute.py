"""``tensor-round execute``: descriptors and bytes in files."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from support.cases.backend_calls import expected
from support.cases.dialect import Document
from support.cases.executions import DOCUMENTS, STRIDED, call_of, ieee754, payload_of
from support.command_line import command
from support.services.server import Service


def execute(
    folder: Path, document: Document | str, payload: bytes, *arguments: str, url: str
) -> subprocess.CompletedProcess[bytes]:
    text = document if isinstance(document, str) else json.dumps(document)
    (folder / "round.json").write_text(text)
    (folder / "in.bin").write_bytes(payload)
    return command(
        *("execute", "--descriptor", "round.json", *arguments),
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


WRONG: dict[str, tuple[int, Document | str, bytes, str]] = {
    "no-json": (2, "{", b"", "round.json: not JSON"),
    "length": (2, ieee754("float32", [3]), bytes(11), "in.bin: the payload must have 12 bytes"),
    "dialect": (1, {"a": 1}, b"", "dialect: is required: one of"),
}


@pytest.mark.parametrize(("code", "document", "payload", "why"), WRONG.values(), ids=WRONG)
def test_each_mistake_is_named(
    tmp_path: Path, code: int, document: Document | str, payload: bytes, why: str
) -> None:
    done = execute(tmp_path, document, payload, "in.bin", "out.bin", "--json", url="local:")
    assert done.returncode == code, done.stderr
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
        "round.json is DxDispatch's JSON; this writes its descriptor: python -c "
        "\"import tensor_round as tr; print(tr.from_dxdispatch('round.json')"
        '.descriptor().to_json().decode())" > descriptor.json'
    )
