"""Triton itself beside the service: the same requests to both, and what both make of them.

Where the two differ on purpose, the difference is a row here and in docs/open-inference.md.
"""

from __future__ import annotations

import gzip
import json
import math
import os
import subprocess
import sysconfig
import time
from collections.abc import Iterator
from http.client import HTTPException
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.http.inference_form import (
    BINARY_OUT,
    HEADER_LENGTH,
    Outcome,
    X,
    binary,
    document,
    infer_path,
    tensor,
)
from support.segments import Segment, segment
from support.services.fronts import free_port
from support.services.server import Reply, Service
from tensor_round_verify.patterns import samples
from tensor_round_verify.reference import is_nan

HOME = Path(os.environ["TRITON_HOME"])
DTYPES = {
    "FP16": "float16", "FP32": "float32", "FP64": "float64", "INT8": "int8", "INT16": "int16",
    "INT32": "int32", "INT64": "int64", "UINT8": "uint8", "UINT16": "uint16", "UINT32": "uint32",
    "UINT64": "uint64",
}  # fmt: skip
MODEL = """\
import os, sys
sys.path.insert(0, os.environ["TRITON_SITE_PACKAGES"])
import numpy as np
import triton_python_backend_utils as triton

class TritonPythonModel:
    def execute(self, requests):
        inputs = [triton.get_input_tensor_by_name(r, "X").as_numpy() for r in requests]
        rounded = [np.rint(x) if x.dtype.kind == "f" else x for x in inputs]
        return [triton.InferenceResponse([triton.Tensor("Y", y)]) for y in rounded]
"""
CONFIG = """\
backend: "python"
max_batch_size: 0
input [{{ name: "X" data_type: TYPE_{0} dims: [ {1} ] }}]
output [{{ name: "Y" data_type: TYPE_{0} dims: [ {1} ] }}]
instance_group [{{ kind: KIND_CPU }}]
"""


class Triton(Service):
    """tritonserver with a model of NumPy's rint for each datatype, and one of two dimensions."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        models = folder / "models"
        shapes = {"round": ("FP32", "-1"), "round_2d": ("FP32", "-1, -1")}
        shapes |= {f"round_{datatype}": (datatype, "-1") for datatype in DTYPES}
        for name, shape in shapes.items():
            (models / name / "1").mkdir(parents=True)
            (models / name / "config.pbtxt").write_text(CONFIG.format(*shape))
            (models / name / "1" / "model.py").write_text(MODEL)
        packages = next(HOME.glob("lib/python3*/site-packages")).absolute()
        self.port = free_port()
        libraries = (packages / "nvidia_pytriton.libs", sysconfig.get_config_var("LIBDIR"))
        self.output = folder / "log"
        with self.output.open("wb") as log:
            self.process = subprocess.Popen(
                [
                    packages / "pytriton/tritonserver/bin/tritonserver",
                    f"--model-repository={models}",
                    f"--backend-directory={HOME / 'backends'}",
                    f"--http-port={self.port}",
                    "--allow-grpc=false",
                    "--allow-metrics=false",
                ],
                stdout=log,
                stderr=log,
                env={
                    **os.environ,
                    "LD_LIBRARY_PATH": ":".join(map(str, libraries)),
                    "TRITON_SITE_PACKAGES": str(packages),
                    "PYTHONDONTWRITEBYTECODE": "1",
                },
            )

    def wait(self) -> None:
        """Until it is ready."""
        deadline = time.monotonic() + 100
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                if self.request("GET", "/v2/health/ready").status == 200:
                    return
            except (OSError, HTTPException):
                pass
            time.sleep(0.2)
        raise AssertionError(self.output.read_text())


#: The two that get the same requests.
Both = tuple[Triton, Service]


@pytest.fixture(scope="module")
def triton(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Triton]:
    server = Triton(tmp_path_factory.mktemp("triton"))
    try:
        server.wait()
        yield server
    finally:
        server.process.terminate()  # killed, it would leave its shared memory behind
        server.process.wait(60)


@pytest.fixture
def both(triton: Triton, service: Service) -> Both:
    return triton, service


def asked(
    both: Both, body: bytes, stated: int | None = None, model: str = "round", **headers: str
) -> tuple[Reply, Reply]:
    """The answers of both to the same bytes."""
    fields = {name.replace("_", "-"): value for name, value in headers.items()}
    if stated is not None:
        fields[HEADER_LENGTH] = str(stated)
    triton, service = both
    return (
        triton.request("POST", infer_path(model), body, fields),
        service.request("POST", infer_path("round"), body, fields),
    )


def answers(both: Both, request: Any, payload: bytes = b"", **more: Any) -> tuple[Outcome, Outcome]:
    """Both answers, their heads equal but for the model that Triton has for each datatype."""
    head = json.dumps(request).encode()
    stated = len(head) if payload else None
    theirs, ours = map(Outcome.of, asked(both, head + payload, stated, **more))
    theirs.head["model_name"] = "round"
    return theirs, ours


@pytest.mark.parametrize("datatype", DTYPES)
def test_tensor_bytes_are_equal(both: Both, datatype: str) -> None:
    dtype = DTYPES[datatype]
    patterns = samples(dtype)
    request = document(binary(datatype, [patterns.size], patterns.nbytes), id="a", **BINARY_OUT)
    theirs, ours = answers(both, request, patterns.tobytes(), model=f"round_{datatype}")
    assert theirs.head == ours.head
    found, expected = (np.frombuffer(a.payload, patterns.dtype) for a in (ours, theirs))
    # NumPy, and so the model in Triton, makes signalling NaNs quiet.
    same = ~is_nan(dtype, patterns)
    np.testing.assert_array_equal(found[same], expected[same])
    np.testing.assert_array_equal(found[~same], patterns[~same])


@pytest.mark.parametrize("datatype", [name for name in DTYPES if name != "FP16"])
def test_json_is_equal(both: Both, datatype: str) -> None:
    x = np.arange(0, 120).astype(DTYPES[datatype])
    if x.dtype.kind == "f":
        x = x / 8 - 7
    request = document(tensor(datatype, [120], data=x.tolist()))
    theirs, ours = answers(both, request, model=f"round_{datatype}")
    assert theirs.head == ours.head


SAME: dict[str, dict[str, Any]] = {
    "nested": document(tensor("FP32", [4], data=[[0.5], [1.5, [2.5]], -0.3])),
    "specials": document(tensor("FP32", [3], data=[math.nan, math.inf, -math.inf])),
    "own-wish": document(tensor("FP32", [1], data=[1.5]),
                         outputs=[{"name": "Y", "parameters": {"binary_data": True}}]),
    "wish-against": document(tensor("FP32", [1], data=[1.5]), **BINARY_OUT,
                             outputs=[{"name": "Y", "parameters": {"binary_data": False}}]),
    "no-wish": document(tensor("FP32", [1], data=[1.5]), outputs=[{"name": "Y"}]),
    "parameters": document(tensor("FP32", [1], data=[1.5]), id="x",
                           parameters={"a": 1, "b": "c", "d": True, "priority": 1}),
}  # fmt: skip


@pytest.mark.parametrize("request_", SAME.values(), ids=SAME)
def test_answers_are_equal(both: Both, request_: dict[str, Any]) -> None:
    theirs, ours = answers(both, request_)
    assert json.dumps(theirs.head) == json.dumps(ours.head)
    assert theirs.payload == ours.payload


HEAD = json.dumps(document(binary("FP32", [10], 40), **BINARY_OUT)).encode()
GOOD = HEAD + X.tobytes()


def test_raw_bodies_are_answered_alike(both: Both) -> None:
    theirs, ours = map(Outcome.of, asked(both, X.tobytes(), 0))
    assert (theirs.head, theirs.payload) == (ours.head, ours.payload)


@pytest.mark.parametrize(
    "accepted",
    [
        "gzip", "deflate", "gzip;q=0.3, deflate;q=0.8", "gzip;q=0.5, identity;q=1.0",
        "identity, gzip", "gzip;q=0", "br", "*",
    ],
)  # fmt: skip
def test_the_same_encoding_is_chosen(both: Both, accepted: str) -> None:
    theirs, ours = asked(both, GOOD, len(HEAD), Accept_Encoding=accepted)
    assert theirs.headers["Content-Encoding"] == ours.headers["Content-Encoding"]
    assert theirs.headers[HEADER_LENGTH] == ours.headers[HEADER_LENGTH]


@pytest.mark.parametrize("accepted", ["gzip, deflate", "deflate, gzip", "gzip, deflate, br"])
def test_list_of_equal_codings_compresses_tensors_there_alone(both: Both, accepted: str) -> None:
    theirs, ours = asked(both, GOOD, len(HEAD), Accept_Encoding=accepted)
    assert theirs.headers["Content-Encoding"]
    assert ours.headers["Content-Encoding"] is None


def inline(data: Any, datatype: str = "FP32", name: str = "X", **more: Any) -> bytes:
    """A body that is JSON alone, of a tensor of as many numbers as are given or said."""
    shape = more.pop("shape", [len(data)])
    return json.dumps(document(tensor(datatype, shape, name, data=data), **more)).encode()


REGION = {"shared_memory_region": "q", "shared_memory_byte_size": 4}
UNKNOWN_REGION = json.dumps(document(tensor("FP32", [1], parameters=REGION))).encode()
GZIP = {"Content-Encoding": "gzip"}
# Body, stated length of its head, further headers; Triton's status, and ours.
STATUSES: dict[str, tuple[bytes, int | None, dict[str, str], int, int]] = {
    # Both refuse.
    "short": (GOOD[:-1], len(HEAD), {}, 400, 400),
    "long": (GOOD + b"x", len(HEAD), {}, 400, 400),
    "length-beyond": (GOOD, 9999, {}, 400, 400),
    "length-negative": (GOOD, -1, {}, 400, 400),
    "other-output": (inline([1], outputs=[{"name": "Z"}]), None, {}, 400, 400),
    "raw-part-of-an-element": (X.tobytes()[:-1], 0, {}, 400, 400),
    "unknown-region": (UNKNOWN_REGION, None, {}, 404, 404),
    "two-sources": (
        json.dumps(document({**binary("FP32", [10], 40), "data": [1] * 10})).encode() + X.tobytes(),
        len(json.dumps(document({**binary("FP32", [10], 40), "data": [1] * 10}))),
        {},
        400,
        400,
    ),
    # Triton answers 200, with nothing or with less than was sent.
    "empty": (b"", None, {}, 200, 400),
    "raw-empty": (b"", 0, {}, 200, 400),
    "not-gzip": (inline([1.5]), None, GZIP, 200, 400),
    "gzip-cut": (gzip.compress(GOOD)[:-9], len(HEAD), GZIP, 200, 400),
    "key-twice": (inline([1])[:-1] + b',"id":"a","id":"b"}', None, {}, 200, 400),
    "output-twice": (inline([1], outputs=[{"name": "Y"}] * 2), None, {}, 200, 400),
    # Triton calls its own fault what is the sender's.
    "not-json": (b"{", None, {}, 500, 400),
    "no-inputs": (b"{}", None, {}, 500, 400),
    "id-number": (inline([1], id=7), None, {}, 500, 400),
    "few-numbers": (inline([1], shape=[2]), None, {}, 500, 400),
    "text-number": (inline(["1"]), None, {}, 500, 400),
    # The service takes what Triton, with a model of one datatype and rank, does not.
    "other-input": (inline([1], name="Z"), None, {}, 400, 200),
    "other-rank": (inline([1], shape=[1, 1]), None, {}, 400, 200),
    "other-datatype": (inline([1], "FP64"), None, {}, 400, 200),
    "fp16-json": (inline([1], "FP16"), None, {}, 400, 200),
    # Both refuse, each in its own way.
    "brotli": (GOOD, len(HEAD), {"Content-Encoding": "br"}, 501, 415),
}


@pytest.mark.parametrize(
    ("body", "stated", "headers", "theirs", "ours"), STATUSES.values(), ids=STATUSES
)
def test_statuses(
    both: Both, body: bytes, stated: int | None, headers: dict[str, str], theirs: int, ours: int
) -> None:
    fields = {name.replace("-", "_"): value for name, value in headers.items()}
    replies = asked(both, body, stated, **fields)
    assert [reply.status for reply in replies] == [theirs, ours]


def register(server: Service, owned: Segment, nbytes: int) -> None:
    body = json.dumps({"key": "/" + owned.key, "offset": 0, "byte_size": nbytes}).encode()
    path = "/v2/systemsharedmemory/region/r/register"
    assert server.request("POST", path, body).status == 200


def test_shared_memory_is_answered_alike(both: Both) -> None:
    for server in both:
        with segment(4096) as owned:
            owned.memory[:40] = X.view(np.uint8)
            register(server, owned, 4096)
            place = {"shared_memory_region": "r", "shared_memory_byte_size": 40}
            out = {**place, "shared_memory_offset": 64}
            request = document(
                tensor("FP32", [10], parameters=place), outputs=[{"name": "Y", "parameters": out}]
            )
            reply = server.request("POST", infer_path("round"), json.dumps(request).encode())
            # Triton does not tell where the output is, as the extension's document has it.
            assert Outcome.of(reply).output.get("parameters", out) == out
            assert owned.memory[64:104].tobytes() == np.rint(X).tobytes()
            (entry,) = server.request("GET", "/v2/systemsharedmemory/status").json()
            assert entry == {"name": "r", "key": "/" + owned.key, "offset": 0, "byte_size": 4096}
            server.request("POST", "/v2/systemsharedmemory/unregister", b"")


def test_a_replaced_object_is_not_read_in_silence(both: Both) -> None:
    statuses = []
    for server in both:
        with segment(64) as owned:
            owned.memory[:40] = X.view(np.uint8)
            register(server, owned, 64)
            spare = owned.path.with_name(owned.key + "_spare")
            spare.write_bytes(bytes(64))
            spare.rename(owned.path)
            place = {"shared_memory_region": "r", "shared_memory_byte_size": 40}
            request = document(tensor("FP32", [10], parameters=place))
            reply = server.request("POST", infer_path("round"), json.dumps(request).encode())
            statuses.append(reply.status)
            if reply.status == 200:  # of what nobody writes into any more
                assert Outcome.of(reply).output["data"] == np.rint(X).tolist()
            server.request("POST", "/v2/systemsharedmemory/unregister", b"")
    assert statuses == [200, 400]


@pytest.mark.parametrize(
    ("method", "path", "theirs", "ours"),
    [
        ("GET", "/v2/health/live", 200, 200),
        ("GET", "/v2/health/ready", 200, 200),
        ("GET", "/v2/models/round/ready", 200, 200),
        ("GET", "/v2/models/none/ready", 400, 404),
        ("GET", "/v2/models/none", 404, 404),
        ("GET", "/v2/models/round/versions/9", 404, 404),
        ("GET", "/v2/", 404, 200),
        ("GET", "/v2/nowhere", 404, 404),
        ("GET", "/v2/models/round/infer", 405, 405),
        ("POST", "/v2/repository/index", 200, 200),
        ("GET", "/v2/systemsharedmemory/status", 200, 200),
        ("GET", "/v2/systemsharedmemory/region/q/status", 404, 404),
        ("POST", "/v2/systemsharedmemory/region/q/unregister", 200, 200),
        ("POST", "/v2/systemsharedmemory/unregister", 200, 200),
        ("POST", "/v2/systemsharedmemory/region/q/register", 500, 400),
        ("GET", "/v2/cudasharedmemory/status", 200, 501),
        ("GET", "/v2/logging", 200, 200),
        ("GET", "/v2/trace/setting", 200, 200),
    ],
)
def test_paths(both: Both, method: str, path: str, theirs: int, ours: int) -> None:
    body = b"" if method == "POST" else None
    assert [server.request(method, path, body).status for server in both] == [theirs, ours]


def members(document_: Any, prefix: str = "") -> set[str]:
    """The paths of all members, of lists those of the first entry."""
    if isinstance(document_, list):
        return members(document_[0], prefix + "[]") if document_ else set()
    if not isinstance(document_, dict):
        return set()
    own = {f"{prefix}.{name}" for name in document_}
    return own.union(*(members(value, f"{prefix}.{name}") for name, value in document_.items()))


@pytest.mark.parametrize(
    ("path", "missing"),
    [
        ("/v2", set()),
        ("/v2/logging", set()),
        ("/v2/trace/setting", set()),
        (
            "/v2/models/round/stats",
            {".model_stats[].response_stats", ".model_stats[].memory_usage"},
        ),
    ],
)
def test_documents_have_the_same_members(both: Both, path: str, missing: set[str]) -> None:
    theirs, ours = (server.request("GET", path).json() for server in both)
    assert members(theirs) - members(ours) == missing
    assert members(ours) <= members(theirs)


def test_metadata_is_equal(both: Both) -> None:
    theirs, ours = (server.request("GET", "/v2/models/round").json() for server in both)
    assert theirs | {"platform": ""} == ours | {"platform": ""}
