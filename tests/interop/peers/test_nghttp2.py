"""nghttp2's own clients: h2load, which never pauses, and nghttp, which tells all fields."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from support.http.grpc_client import SERVICE, framed, infer_request, theirs
from support.http.inference_form import binary, document
from support.services.server import Service
from support.services.tls import TlsService
from support.v2.grpc_caller import GrpcCaller

CALLS = 4000
FIELDS = ("-H", "content-type: application/grpc", "-H", "te: trailers")


@pytest.fixture(scope="module", params=[Service, TlsService], ids=["cleartext", "tls"])
def called(request: pytest.FixtureRequest) -> Iterator[Service]:
    """A service of which h2load and nghttp accept the certificate, for they check none."""
    kind: type[Service] = request.param
    with kind() as running:
        yield running


def request_file(folder: Path, x: np.ndarray[tuple[int], np.dtype[np.float32]]) -> Path:
    """A whole message that asks for the rounding of an array."""
    path = folder / "message"
    path.write_bytes(
        framed(infer_request(document(binary("FP32", [x.size], x.nbytes)), x.tobytes()))
    )
    return path


def url(service: Service, method: str = "ModelInfer") -> str:
    return f"{service.url}/{SERVICE}/{method}"


def output(*command: object) -> bytes:
    done = subprocess.run([*map(str, command)], capture_output=True, timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def counted(service: Service) -> int:
    """Inferences that the service says it has served; the load was of gRPC's statuses, too."""
    if isinstance(service, TlsService):
        service.caller.set_alpn_protocols([GrpcCaller.protocol])
    told = GrpcCaller(service).ask("ModelStatistics", name="round").head
    (stats,) = told["model_stats"]
    assert stats["inference_stats"]["fail"]["count"] == 0
    count: int = stats["inference_stats"]["success"]["count"]
    return count


@pytest.mark.parametrize(
    ("count", "streams", "connections"),
    [(4, 1, 1), (4, 100, 8), (1 << 14, 1, 8), (1 << 14, 100, 1), (1 << 18, 10, 4)],
)
def test_h2load(
    called: Service, tmp_path: Path, count: int, streams: int, connections: int
) -> None:
    x = np.linspace(-9, 9, count, dtype=np.float32)
    calls = CALLS if count < 1 << 18 else CALLS // 20
    before = counted(called)
    told = output(
        # Under TLS it would offer HTTP/1.1, too, and get that.
        "h2load",
        "--npn-list=h2",
        "-n",
        calls,
        "-c",
        connections,
        "-m",
        streams,
        *FIELDS,
        "-d",
        request_file(tmp_path, x),
        url(called),
    ).decode()
    assert f"{calls} succeeded, 0 failed, 0 errored, 0 timeout" in told, told
    assert f"status codes: {calls} 2xx, 0 3xx, 0 4xx, 0 5xx" in told, told
    # A refusal of gRPC has the status 200, too.
    assert counted(called) == before + calls
    data = re.search(r"\((\d+)\) data", told)
    assert data is not None
    assert int(data[1]) > calls * x.nbytes


@pytest.mark.parametrize("window", [10, 16, 30], ids=lambda bits: f"window-2^{bits}")
def test_nghttp(called: Service, tmp_path: Path, window: int) -> None:
    x = np.linspace(-9, 9, 40_000, dtype=np.float32)
    message = request_file(tmp_path, x)
    response = output("nghttp", f"-w{window}", "-d", message, *FIELDS, url(called))
    told = theirs(".inference.ModelInferResponse").FromString(response[5:])
    assert told.raw_output_contents[:] == [np.rint(x).tobytes()]


def test_nghttp_tells_how_a_call_ends(called: Service, tmp_path: Path) -> None:
    x = np.zeros(4, np.float32)
    for method, status in (("ModelInfer", 0), ("NoMethod", 12)):
        told = output(
            "nghttp", "-v", "-n", "-d", request_file(tmp_path, x), *FIELDS, url(called, method)
        )
        assert b":status: 200" in told
        assert b"grpc-status: %d" % status in told
