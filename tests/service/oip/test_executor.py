"""Inferences: models, bodies in pieces, execution in shared memory, and counters."""

from __future__ import annotations

import contextlib
import gzip
import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby, product
from operator import attrgetter
from typing import Any

import numpy as np
import pytest
from fastapi import FastAPI

from support.cases.backend_calls import WatchedBackend
from support.cases.descriptors import CASES
from support.cases.every import grouped
from support.http import asgi
from support.http.inference_form import (
    BINARY_OUT,
    GOOD,
    HEADER_LENGTH,
    X,
    binary,
    document,
    infer_path,
    tensor,
)
from support.segments import PREFIX, Segment, segment
from tensor_round.contract.dtypes import BY_OIP, DTYPES
from tensor_round.contract.errors import InvalidDescriptor, NotFound
from tensor_round.contract.operators.operator import Kind
from tensor_round.contract.rounding import Rounding
from tensor_round_service.app import create_app
from tensor_round_service.backends import Bytes
from tensor_round_service.backends.cpu.backend import NumpyBackend
from tensor_round_service.engine.engine import Engine
from tensor_round_service.engine.job import Job
from tensor_round_service.net.bodies import Parts
from tensor_round_service.oip import infer_json
from tensor_round_service.oip.executor import (
    PIECE_BYTES,
    SHARED_BYTES,
    InferenceExecutor,
    buffers_for,
    for_each_piece,
)
from tensor_round_service.oip.models import MODELS, Model, config_of, find
from tensor_round_service.oip.plan import plan
from tensor_round_service.oip.posix_memory import PosixSharedMemory
from tensor_round_service.oip.regions import Registry
from tensor_round_service.settings import Settings

RUNS = (0, 1, PIECE_BYTES, PIECE_BYTES + 1, SHARED_BYTES - 1, SHARED_BYTES, SHARED_BYTES + 4)
HaveDone = Callable[[Callable[[], None]], None]


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as threads:
        yield threads


def nobody(_work: Callable[[], None]) -> None:
    """No thread is ever free."""


def at_once(work: Callable[[], None]) -> None:
    """A thread does it all before anybody else comes to anything."""
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


@pytest.mark.parametrize("nbytes", RUNS)
@pytest.mark.parametrize("have_done", [nobody, at_once])
def test_each_piece_is_done_once(nbytes: int, have_done: HaveDone) -> None:
    done: list[tuple[int, int]] = []

    def work(start: int, end: int, thread: int) -> None:
        assert end - start <= buffers_for(nbytes)[thread]
        done.append((start, end))

    for_each_piece(nbytes, work, have_done)
    done.sort()
    assert [start for start, _ in done] == [0, *(end for _, end in done[:-1])]
    assert done[-1][1] == nbytes


def test_on_threads_that_are_all_taken(pool: ThreadPoolExecutor) -> None:
    """Each waits for no other, though none of them finds a helper."""
    together = threading.Barrier(2, timeout=10)

    def whole() -> int:
        done = []
        together.wait()
        for_each_piece(SHARED_BYTES, lambda start, end, _: done.append(end - start), pool.submit)
        return sum(done)

    futures = [pool.submit(whole) for _ in range(2)]
    assert [future.result(10) for future in futures] == [SHARED_BYTES] * 2


def test_late_helper_does_nothing() -> None:
    late: list[Callable[[], None]] = []
    done = []
    for_each_piece(SHARED_BYTES, lambda start, _end, _thread: done.append(start), late.append)
    (help_,) = late
    before = len(done)
    help_()
    assert len(done) == before


@pytest.mark.parametrize("fails", [0, 1])
def test_a_failure_ends_the_work_of_both(pool: ThreadPoolExecutor, fails: int) -> None:
    together = threading.Barrier(2, timeout=10)
    failed = threading.Event()
    working = []

    def work(start: int, _end: int, thread: int) -> None:
        if start < 2 * PIECE_BYTES:
            together.wait()
            if thread == fails:
                failed.set()
                raise OSError("of this piece")
        failed.wait(10)
        time.sleep(0.02)
        working.append(start)

    with pytest.raises(OSError, match="of this piece"):
        for_each_piece(16 * SHARED_BYTES, work, pool.submit)
    done = len(working)
    assert done <= 2
    time.sleep(0.1)
    assert len(working) == done, "nobody works on"


SIZE = SHARED_BYTES + 4096
SIZES = (0, 8, PIECE_BYTES, PIECE_BYTES + 8, SHARED_BYTES, SIZE)


class Watched(WatchedBackend):
    """Remembers what was allocated too. ``device_from``: where a device would be worth it."""

    def __init__(self, device_from: int | None = None) -> None:
        super().__init__()
        self._device_from = device_from
        self.allocated: list[int] = []

    @property
    def inline_bytes(self) -> int:
        return super().inline_bytes if self._device_from is None else self._device_from - 1

    def allocate(self, nbytes: int) -> Bytes:
        self.allocated.append(nbytes)
        return super().allocate(nbytes)


@pytest.fixture
def owned() -> Iterator[Segment]:
    with segment(2 * SIZE) as made:
        made.memory.view("<f4")[:] = 0.75
        yield made


@pytest.fixture(params=[None, 8], ids=["host", "device"])
def backend(request: pytest.FixtureRequest) -> Watched:
    return Watched(request.param)


@pytest.fixture
def engine(backend: Watched) -> Iterator[Engine]:
    made = Engine(backend)
    yield made
    made.close()


def at(nbytes: int, offset: int) -> dict[str, Any]:
    return {
        "shared_memory_region": "r",
        "shared_memory_byte_size": nbytes,
        "shared_memory_offset": offset,
    }


def request(form: str, nbytes: int) -> dict[str, Any]:
    inside = tensor("FP32", [nbytes // 4], parameters=at(nbytes, 0))
    outside = binary("FP32", [nbytes // 4], nbytes)
    if form == "out":
        return document(inside, parameters={"binary_data_output": True})
    to = {"in-place": 0}.get(form, SIZE)
    outputs = [{"name": "Y", "parameters": at(nbytes, to)}]
    return document(outside if form == "in" else inside, outputs=outputs)


@pytest.mark.parametrize("nbytes", SIZES)
@pytest.mark.parametrize("form", ["in-place", "elsewhere", "out", "in"])
def test_all_memory_is_counted_and_a_device_has_tensors_whole(
    engine: Engine, backend: Watched, owned: Segment, form: str, nbytes: int
) -> None:
    memory = PosixSharedMemory(PREFIX, Registry())
    memory.register("r", owned.key, 0, 2 * SIZE)
    work = InferenceExecutor(engine, memory)
    planned = plan(
        find("round"), infer_json.read_request(json.dumps(request(form, nbytes)).encode())
    )
    job = Job(engine.memory)
    received = job.allocate(nbytes) if form == "in" else None
    if received is not None:
        received.view("<f4")[:] = 0.75
    parts = work.run(planned, received, job)
    check(parts, owned, form, nbytes, job)
    job.end(reusable=True)
    assert sum(backend.allocated) == work.buffer_bytes(planned)
    by_pieces = backend.inline_bytes >= nbytes and form != "in"
    assert sum(backend.sizes) == nbytes
    assert max(backend.sizes) == (min(nbytes, PIECE_BYTES) if by_pieces else nbytes)


def check(parts: Parts, owned: Segment, form: str, nbytes: int, job: Job) -> None:
    """The tensor is rounded where it shall be, and nothing else is touched."""
    expected = np.full(SIZE // 2, 0.75, "<f4")
    start = {"in-place": 0, "elsewhere": SIZE, "in": SIZE}.get(form)
    if start is None:
        assert bytes(parts[0]) == np.ones(nbytes // 4, "<f4").tobytes()
    else:
        expected[start // 4 : (start + nbytes) // 4] = 1
    assert owned.memory.tobytes() == expected.tobytes()
    assert job.executed_by == "numpy"


HEAD = json.dumps(GOOD).encode()
INLINE = json.dumps(document(tensor("FP32", [10], data=X.tolist()), **BINARY_OUT)).encode()
EXPECTED = np.rint(X).tobytes()
#: Body, and the stated length of its head.
BODIES: dict[str, tuple[bytes, int | None]] = {
    "binary": (HEAD + X.tobytes(), len(HEAD)),
    "json": (INLINE, None),
    "json-of-stated-length": (INLINE, len(INLINE)),
    "raw": (X.tobytes(), 0),
}
each_body = pytest.mark.parametrize(("body", "stated"), BODIES.values(), ids=BODIES)


@pytest.fixture(scope="module")
def numpy_engine() -> Iterator[Engine]:
    made = Engine(NumpyBackend())
    yield made
    assert made.memory.in_use == 0
    made.close()


@pytest.fixture(scope="module")
def app(numpy_engine: Engine) -> FastAPI:
    return create_app(Settings(), numpy_engine)


def answered(
    app: FastAPI,
    pieces: Sequence[bytes | None],
    stated: int | None,
    *,
    declared: bool = True,
    coding: str = "identity",
) -> tuple[int, bytes]:
    """Status and content for a body in these pieces, whose head has the stated length."""
    fields = [("content-encoding", coding)]
    if declared:
        fields.append(("content-length", str(sum(len(piece or b"") for piece in pieces))))
    if stated is not None:
        fields.append((HEADER_LENGTH, str(stated)))
    answer = asgi.ask(app, "POST", infer_path("round"), fields, pieces)
    return answer.status, answer.content


each_length = pytest.mark.parametrize("declared", [True, False], ids=["declared", "chunked"])


@each_body
@each_length
@pytest.mark.parametrize("size", [1, 3, 1000])
def test_a_body_in_pieces(
    app: FastAPI, body: bytes, stated: int | None, size: int, declared: bool
) -> None:
    pieces = [b"", *(body[at : at + size] for at in range(0, len(body), size)), b""]
    status, content = answered(app, pieces, stated, declared=declared)
    assert (status, content.endswith(EXPECTED)) == (200, True)


@each_body
@each_length
@pytest.mark.parametrize("coding", ["identity", "gzip"])
def test_a_body_cut_anywhere(
    app: FastAPI, body: bytes, stated: int | None, coding: str, declared: bool
) -> None:
    sent = gzip.compress(body) if coding == "gzip" else body
    assert answered(app, [sent], stated, declared=declared, coding=coding)[0] == 200
    for length in range(len(sent)):
        status, content = answered(app, [sent[:length]], stated, declared=declared, coding=coding)
        if coding == "identity" and stated == 0 and length and length % 4 == 0:
            assert status == 200  # fewer elements are a tensor too
            continue
        assert status == 400, length
        assert list(json.loads(content)) == ["error"]


@each_body
@each_length
@pytest.mark.parametrize("trailing", [b"\0", b"}", bytes(70_000)], ids=len)
def test_trailing_bytes(
    app: FastAPI, body: bytes, stated: int | None, trailing: bytes, declared: bool
) -> None:
    for pieces in ([body + trailing], [body, trailing]):
        status, _ = answered(app, pieces, stated, declared=declared)
        assert status == (200 if stated == 0 and len(trailing) % 4 == 0 else 400)


@each_body
def test_a_sender_that_hangs_up_anywhere(
    app: FastAPI, numpy_engine: Engine, body: bytes, stated: int | None
) -> None:
    for length in range(0, len(body), 3):
        assert answered(app, [body[:length], None], stated, declared=False) == (0, b"")
        assert numpy_engine.memory.in_use == 0


each_model = grouped(
    {name: [(model,) for model in found] for name, found in groupby(MODELS, attrgetter("name"))}
)


#: Parameters without which some models refuse a request.
NEEDED: dict[str, Any] = {
    "to": "float32",
    "exponent_bits": 8,
    "mantissa_bits": 23,
    "quantized_type": "!quant.uniform<u8:f32, 1.0>",
}
#: StableHLO's quantized types have the types of both tensors.
QUANTIZED = [
    {"quantized_type": f"!quant.uniform<{storage}:{expressed}, 1.0>"}
    for storage in ("i4", "i8", "i16", "u4", "u8", "u16")
    for expressed in ("f16", "bf16", "f32")
]


def given(name: str, datatype: str, rank: int) -> infer_json.Input:
    """An input of that type, with one element."""
    kind, _, carried = datatype.partition(":")
    own: dict[str, Any] = {"dtype": carried} if carried else {}
    source = infer_json.Inline(b"0" if rank == 0 else [b"0"])
    return infer_json.Input(name, kind, (1,) * rank, own, source)


def ask(model: Model, datatype: str, rank: int, scale: str = "FP32", **parameters: Any) -> Rounding:
    """The direction in which a model would round such a tensor."""
    needed = {name: NEEDED[name] for name in model.operator.object.required()}
    if model.name == "mlir_arith":  # no operation is from a type to itself
        needed["to"] = "float16"
    parameters = {**needed, **parameters}
    point = datatype if model.operator.kind is Kind.DEQUANTIZE else "UINT8"
    types = ((datatype, rank), (scale, 0), (point, 0))
    inputs = tuple(given(name, *kind) for name, kind in zip(model.inputs, types, strict=False))
    return plan(model, infer_json.Request(None, parameters, inputs, (), False)).call.rounding


def told(model: Model, name: str) -> str:
    value = config_of(model)["parameters"][name]["string_value"]
    assert isinstance(value, str)
    return value


CARRIED = [f"UINT8:{dtype.name}" for dtype in DTYPES if dtype.oip is None]
DATATYPES = [*BY_OIP, *CARRIED, "BOOL", "BYTES"]


@each_model
def test_datatypes(model: Model) -> None:
    taken = []
    targets: list[dict[str, str]] = [{}]
    if model.operator.kind is Kind.CAST:
        targets = [{"to": "float64"}, {"to": "float16"}]
    elif "quantized_type" in model.parameters:
        targets = QUANTIZED
    scales = {"FP32"} | {told(model, name) for name in model.inputs[1:2]}
    for datatype in DATATYPES:
        for target, scale in product(targets, ",".join(scales).split(",")):
            with contextlib.suppress(InvalidDescriptor):
                ask(model, datatype, 4, scale, **target)
                taken.append(datatype)
    assert set(taken) == set(told(model, "datatypes").split(","))


@each_model
def test_ranks(model: Model) -> None:
    least, most = map(int, told(model, "ranks").split("-"))
    datatype = model.metadata[0][0]["datatype"]
    for rank in range(35):
        if least <= rank <= most:
            ask(model, datatype, rank)
        else:
            with pytest.raises(InvalidDescriptor):
                ask(model, datatype, rank)


@each_model
def test_modes(model: Model) -> None:
    if model.mode_parameter is None:
        datatype = model.metadata[0][0]["datatype"]
        assert ask(model, datatype, 4) is model.operator.default_rounding
        # Unknown parameters are ignored, whatever their names.
        assert ask(model, datatype, 4, **{"None": 1}) is model.operator.default_rounding
        return
    modes = told(model, model.mode_parameter).split(",")
    found = [ask(model, "FP32", 4, **{model.mode_parameter: mode}) for mode in modes]
    assert found == list(model.operator.modes.values())
    assert len(set(found)) == len(found) > 1
    assert ask(model, "FP32", 4) is Rounding.TIES_TO_EVEN
    # Equal to a lawful one as keys are; a cache must not take them for it.
    for wrong in (0.0, False, 1.0, True, "", "?"):
        with pytest.raises(InvalidDescriptor, match=model.mode_parameter):
            ask(model, "FP32", 4, **{model.mode_parameter: wrong})


def test_names() -> None:
    assert [(model.name, model.version) for model in MODELS] == [
        (cases.model.name, version) for cases in CASES.values() for version in cases.model.versions
    ]
    assert find("onnx_round").version == "22"
    assert find("onnx_round", "11").version == "11"
    assert find("directml_element_wise_round").version == "6_4"


@pytest.mark.parametrize(
    ("name", "version"),
    [("", None), ("Round", None), ("round ", None), ("round", ""), ("round", "1.0"),
     ("onnx_round", "12"), ("directml_element_wise_round", "2_0")],
)  # fmt: skip
def test_unknown_names(name: str, version: str | None) -> None:
    with pytest.raises(NotFound):
        find(name, version)
