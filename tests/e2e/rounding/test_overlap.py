"""Large tensors rounded while they come in: the same bits, and no harm if they never come whole."""

from __future__ import annotations

import contextlib
import gc
import json
import re
import socket
import time
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest

from support.cases.backend_calls import WatchedBackend
from support.http.inference_form import HEADER_LENGTH, binary, document, infer_path
from support.http.native_form import Answers, ieee754, npy, sha256_field
from support.segments import PREFIX, segment
from support.services.hosted import HostedService
from support.services.server import Reply, Service, until
from support.services.tls import SERVER, caller_context
from tensor_round.contract.dtypes import BY_NAME
from tensor_round_service.engine.overlap import MIN_BYTES, PIECE_BYTES, Overlap
from tensor_round_verify import reference
from tensor_round_verify.patterns import samples

#: A few elements more than whole pieces, of any type.
NBYTES = MIN_BYTES + 24


@pytest.fixture(scope="module")
def hosted() -> Iterator[HostedService]:
    with HostedService() as running:
        yield running


@pytest.fixture
def backend(hosted: HostedService) -> Iterator[WatchedBackend]:
    with watched(hosted) as backend:
        yield backend


@contextlib.contextmanager
def watched(hosted: HostedService) -> Iterator[WatchedBackend]:
    """What a service rounds with, for a while."""
    backend, plain = WatchedBackend(), hosted.engine.backend
    hosted.engine.backend = backend
    yield backend
    assert hosted.settled()
    hosted.engine.backend = plain
    backend.close()


def edges_of_pieces(dtype: str, rounding: str) -> tuple[reference.Bits, reference.Bits]:
    """Hard patterns, over and over, with a NaN on each side of where pieces meet; and the answer.

    The NaNs are signalling where the type has such, and of the other sign behind than before.
    """
    hard = samples(dtype, random_count=1 << 12)
    found = hard[reference.is_nan(dtype, hard)]
    # A type without a NaN has its largest number instead.
    nan = found.min() if found.size else hard.dtype.type(reference.FLOATS[dtype].largest)
    meeting = np.arange(PIECE_BYTES, NBYTES, PIECE_BYTES) // hard.itemsize
    both = []
    for some in (hard, reference.rounded(hard, dtype, rounding)):
        patterns = np.resize(some, NBYTES // some.itemsize)
        patterns[meeting - 1] = nan
        patterns[meeting] = nan | hard.dtype.type(reference.FLOATS[dtype].sign_bit)
        both.append(patterns)
    return both[0], both[1]


FP16, _even = edges_of_pieces("float16", "ties_to_even")
EVEN = _even.tobytes()
OCTETS = {"Operator-Descriptor": ieee754("float16", [FP16.size])}


def message(body: bytes, fields: Mapping[str, str], path: str = "/round") -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: x", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in fields.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body


def answer_on(plug: socket.socket) -> Reply:
    return Reply(*Answers(plug).next())


@contextlib.contextmanager
def half_sent(service: Service, whole: bytes) -> Iterator[socket.socket]:
    """A connection over which the first half of a request has gone."""
    with contextlib.closing(service.connect()) as plug:
        plug.sendall(whole[: len(whole) // 2])
        yield plug


def ask_slowly(service: Service, whole: bytes, backend: WatchedBackend | None = None) -> Reply:
    """The answer to a request of which a backend rounds something before it has all come."""
    with half_sent(service, whole) as plug:
        time.sleep(0.1) if backend is None else backend.wait_for_a_piece()
        plug.sendall(whole[len(whole) // 2 :])
        return Reply(*Answers(plug).next())


#: Types of which an element has its own bytes.
WHOLE_BYTES = [dtype for dtype in reference.FLOATS if not BY_NAME[dtype].is_sub_byte]


@pytest.mark.parametrize("dtype", WHOLE_BYTES)
def test_pieces_and_the_rest_have_the_bits_of_the_whole(
    hosted: HostedService, backend: WatchedBackend, dtype: str
) -> None:
    patterns, right = edges_of_pieces(dtype, "ties_to_away")
    fields = {"Operator-Descriptor": ieee754(dtype, [patterns.size], "ties_to_away")}
    answer = ask_slowly(hosted, message(patterns.tobytes(), fields), backend)
    assert answer.status == 200, answer.content
    assert answer.content == right.tobytes()
    *pieces, rest = backend.sizes
    assert set(pieces) == {PIECE_BYTES}
    assert sum(pieces) + rest == NBYTES
    assert answer.headers["Execution-Backend"] == "numpy"


def of_file(x: np.ndarray) -> bytes:
    return message(npy(x), {"Content-Type": "application/x-npy"})


def test_npy_file_and_inference_are_rounded_in_pieces(
    hosted: HostedService, backend: WatchedBackend
) -> None:
    in_bytes = inference(parameters={"binary_data_output": True})
    for whole in (of_file(FP16.view("<f2")), in_bytes):
        backend.sizes.clear()
        assert ask_slowly(hosted, whole, backend).content[-NBYTES:] == EVEN


def inference(**members: Any) -> bytes:
    head = json.dumps(document(binary("FP16", [FP16.size], NBYTES), **members)).encode()
    fields = {HEADER_LENGTH: str(len(head))}
    return message(head + FP16.tobytes(), fields, infer_path("round"))


def test_inference_into_shared_memory_is_rounded_on_its_way_there() -> None:
    with Service("--shared-memory-prefix", PREFIX) as service, segment(NBYTES) as owned:
        place = json.dumps({"key": "/" + owned.key, "offset": 0, "byte_size": NBYTES}).encode()
        path = "/v2/systemsharedmemory/region/r/register"
        assert service.request("POST", path, place).status == 200
        region = {"shared_memory_region": "r", "shared_memory_byte_size": NBYTES}
        whole = inference(outputs=[{"name": "Y", "parameters": region}])
        assert ask_slowly(service, whole).status == 200
        assert owned.memory.tobytes() == EVEN


def test_time_of_pieces_counts_as_execution(hosted: HostedService, backend: WatchedBackend) -> None:
    backend.before = lambda _nbytes: time.sleep(0.02)
    began = time.perf_counter()
    answer = ask_slowly(hosted, message(FP16.tobytes(), OCTETS), backend)
    elapsed = time.perf_counter() - began
    durations = map(float, re.findall("dur=([0-9.]+)", answer.headers["Server-Timing"]))
    receive, queue, execute = durations
    assert execute >= 20 * len(backend.sizes)
    assert receive > 0
    assert receive + queue + execute <= elapsed * 1e3


def test_digest_is_of_the_bytes_as_they_came(
    hosted: HostedService, backend: WatchedBackend
) -> None:
    for stated, status in ((FP16.tobytes(), 200), (EVEN, 400)):
        whole = message(FP16.tobytes(), {**OCTETS, "Content-Digest": sha256_field(stated)})
        answer = ask_slowly(hosted, whole)
        assert answer.status == status
        assert status != 200 or answer.content == EVEN
        assert PIECE_BYTES not in backend.sizes


def test_bytes_in_the_other_order_are_rounded_once_all_have_come(
    hosted: HostedService, backend: WatchedBackend
) -> None:
    whole = of_file(FP16.byteswap().view(">f2"))
    content = ask_slowly(hosted, whole).content
    assert np.frombuffer(content[-NBYTES:], ">u2").astype("<u2").tobytes() == EVEN
    assert backend.sizes == [NBYTES]


def test_only_one_large_tensor_at_a_time_is_rounded_in_pieces(
    hosted: HostedService, backend: WatchedBackend
) -> None:
    whole = message(FP16.tobytes(), OCTETS)
    with half_sent(hosted, whole):
        backend.wait_for_a_piece()
        assert hosted.request("POST", "/round", FP16.tobytes(), OCTETS).content == EVEN
        assert NBYTES in backend.sizes


def test_no_piece_is_rounded_under_tls() -> None:
    with HostedService(certificate=SERVER) as hosted, watched(hosted) as backend:
        plug = caller_context().wrap_socket(hosted.connect(), server_hostname="localhost")
        with contextlib.closing(plug):
            whole = message(FP16.tobytes(), OCTETS)
            plug.sendall(whole[:-1000])
            time.sleep(0.1)
            plug.sendall(whole[-1000:])
            assert answer_on(plug).content == EVEN
        assert backend.sizes == [NBYTES]


def test_sender_that_leaves_half_way_leaves_sound_memory(
    hosted: HostedService, backend: WatchedBackend
) -> None:
    with half_sent(hosted, message(FP16.tobytes(), OCTETS)):
        backend.wait_for_a_piece()
    assert hosted.settled()
    assert NBYTES not in backend.sizes
    assert hosted.request("POST", "/round", FP16.tobytes(), OCTETS).content == EVEN


def test_nothing_is_left_for_the_garbage_collector(
    hosted: HostedService, backend: WatchedBackend
) -> None:
    gc.collect()
    gc.disable()
    try:
        assert ask_slowly(hosted, message(FP16.tobytes(), OCTETS), backend).status == 200
        assert hosted.settled()
        assert not [one for one in gc.get_objects() if type(one) is Overlap]
    finally:
        gc.enable()


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (MemoryError, "device_out_of_memory"),
        (RuntimeError, "backend_failed"),
        (ValueError, "internal_error"),
    ],
)
def test_piece_that_fails_is_reported_at_the_end(
    hosted: HostedService, backend: WatchedBackend, error: type[Exception], code: str
) -> None:
    failed: list[int] = []

    def fail(nbytes: int) -> None:
        failed.append(nbytes)
        raise error

    backend.before = fail
    whole = message(FP16.tobytes(), OCTETS)
    with half_sent(hosted, whole) as plug:
        until(lambda: failed, 10)
        plug.sendall(whole[len(whole) // 2 :])
        assert answer_on(plug).json()["code"] == code
        assert failed == [PIECE_BYTES]
        backend.before = bool
        plug.sendall(whole)
        assert answer_on(plug).content == EVEN
