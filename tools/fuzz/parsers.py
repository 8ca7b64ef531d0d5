"""Mutated heads, descriptors, JSON documents and other programs' operators, fed to their readers.

A reader may raise the errors that the service documents, below 500, and nothing else,
within 20 ms, and without taking memory by what it is told. What comes in pieces says what it
says as a whole.
"""

from __future__ import annotations

import random
import resource
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from stress.metrics import Report
from tensor_round.contract.errors import RequestRefused
from tensor_round.contract.layout import check_size
from tensor_round.contract.operators import registry
from tensor_round.contract.operators.importers import from_dxdispatch, from_openvino
from tensor_round.contract.operators.registry import operator_from_text
from tensor_round.contract.wire import http_fields, npy
from tensor_round.transport.exchange import MAX_PROBLEM_BYTES, refusal
from tensor_round_service.net.codings import STEP_BYTES, decoder_for
from tensor_round_service.net.head import MalformedRequest
from tensor_round_service.net.http1.head import split_head
from tensor_round_service.net.http1.receiving import BodyReceiver
from tensor_round_service.oip import infer_json
from tensor_round_service.oip.models import find
from tensor_round_service.oip.plan import plan
from tensor_round_service.routes.json_document import TensorDocument

from . import inputs

#: The longest that a reader may take, in seconds; the service's event loop waits for it.
MAX_SECONDS = 0.020
LIMIT_BYTES = 1 << 20


def read_npy(data: bytes) -> None:
    """As ``POST /round`` reads the head of a .npy file."""
    header = npy.read_header(data)
    if isinstance(header, npy.NpyHeader):
        dtype = npy.resolve_dtype(header, "bfloat16" if header.dtype is None else None)
        check_size(header.layout(dtype), LIMIT_BYTES, "input")


def read_descriptor(data: bytes) -> None:
    """As the header Operator-Descriptor is read."""
    call = registry.parse(data).resolve()
    call.check_sizes(LIMIT_BYTES)


def read_document(data: bytes) -> None:
    """As ``POST /round`` reads JSON."""
    document = TensorDocument.read(data)
    check_size(document.call.input, LIMIT_BYTES, "input")
    document.payload()


def read_inference(data: bytes) -> None:
    """As ``POST /v2/models/.../infer`` reads its head."""
    check_size(plan(find("round"), infer_json.read_request(data)).call.input, LIMIT_BYTES, "input")


def read_encoded(data: bytes) -> None:
    """As a body with ``Content-Encoding: gzip`` is unpacked."""
    decoder = decoder_for("gzip")
    assert decoder is not None
    decoder.feed(data)
    while decoder.decode(STEP_BYTES):
        pass
    decoder.finish()


def read_fields(data: bytes) -> None:
    """As the smaller headers are read."""
    text = data.decode("latin-1")
    http_fields.SANE_REQUEST_ID.fullmatch(data)
    http_fields.media_type(text)
    http_fields.wanted_digest([text])
    http_fields.parse_content_digest([text])


def read_dxdispatch(data: bytes) -> None:
    """As a client reads DxDispatch's JSON."""
    from_dxdispatch(data).descriptor().resolve()


def read_operator(data: bytes) -> None:
    """As ``POST /round?operator=`` reads an operator."""
    operator_from_text(data.decode("latin-1"), ("query", "operator"))


def read_refusal(data: bytes) -> None:
    """As a client reads what is no tensor: as it is, and as if it were compressed."""
    for coding in ("identity", "gzip"):
        headers = {"content-type": http_fields.PROBLEM_JSON, "content-encoding": coding}
        assert len(refusal(503, headers, data).detail) <= MAX_PROBLEM_BYTES


def read_layer(data: bytes) -> None:
    """As a client reads a layer of an OpenVINO IR."""
    layer = from_openvino(data)
    layer.descriptor(layer.dtype or "float32", layer.shape or ()).resolve()


@dataclass(frozen=True)
class Target:
    """A reader, valid input for it, and the same as trees where it is JSON."""

    read: Callable[[bytes], None]
    valid: list[bytes]
    trees: list[dict[str, object]] = field(default_factory=list)

    def mutated(self, random: random.Random) -> bytes:
        """Some input that may not be valid."""
        if self.trees and random.random() < 0.6:
            return inputs.mutate_json(random, random.choice(self.trees))
        return inputs.mutate(random, random.choice(self.valid), self.valid)


def targets() -> dict[str, Target]:
    """Every reader, by name."""

    def of_json(read: Callable[[bytes], None], trees: list[dict[str, object]]) -> Target:
        return Target(read, [inputs.json.dumps(tree).encode() for tree in trees], trees)

    packed = inputs.gzip.compress(inputs.X.tobytes() * 50)
    return {
        "npy": Target(read_npy, inputs.npy_files()),
        "descriptor": of_json(read_descriptor, inputs.DESCRIPTORS),
        "dxdispatch": of_json(read_dxdispatch, inputs.MODELS),
        "operator": Target(read_operator, inputs.OPERATORS),
        "refusal": Target(read_refusal, inputs.problems()),
        "layer": Target(read_layer, inputs.LAYERS),
        "document": of_json(read_document, inputs.DOCUMENTS),
        "inference": of_json(read_inference, inputs.INFERENCES),
        "gzip": Target(read_encoded, [packed, packed + packed]),
        "head": Target(read_head, inputs.requests()),
        "body": Target(read_body, inputs.chunked_bodies()),
        "fields": Target(
            read_fields, [b"sha-256=:" + b"A" * 43 + b"=:, unixsum=5;q=1", b"sha-256=10, md5=3"]
        ),
    }


@dataclass
class Findings:
    """What became of the input: how much of it was taken, and what broke a rule."""

    outcomes: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    slowest: float = 0.0
    grown_bytes: int = 0


def outcome(target: Target, data: bytes) -> str:
    """ "valid", or the code of the documented error; any other exception is not caught."""
    try:
        target.read(data)
    except RequestRefused as refusal:
        if refusal.status != 500:
            return refusal.code
        raise
    except MalformedRequest:
        return "malformed_request"
    return "valid"


def fuzz(count: int, seed: int) -> Findings:
    """Try so many inputs, an equal part with each reader."""
    source = random.Random(seed)
    found = Findings()
    each = list(targets().items())
    began = _peak_bytes()
    for turn in range(count):
        name, target = each[turn % len(each)]
        data = target.mutated(source)
        start = time.perf_counter()
        try:
            what = outcome(target, data)
        except Exception as error:  # any that is not documented is what is looked for
            found.faults.append(f"{name}: {type(error).__name__}: {error} on {data[:2000]!r}")
            continue
        took = time.perf_counter() - start
        if took > MAX_SECONDS / 10:
            took = min(_time(target, data) for _ in range(3))  # or was it the machine?
        if took > MAX_SECONDS:
            found.faults.append(f"{name}: {took * 1e3:.1f} ms on {data[:2000]!r}")
        found.slowest = max(found.slowest, took)
        found.outcomes[f"{name} {what}"] += 1
    found.grown_bytes = _peak_bytes() - began
    return found


def _time(target: Target, data: bytes) -> float:
    start = time.perf_counter()
    outcome(target, data)
    return time.perf_counter() - start


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def run(count: float, seed: int) -> Report:
    """The row of the table."""
    found = fuzz(int(count), seed)
    lines = (f"{times:9,} {what}" for what, times in sorted(found.outcomes.items()))
    figures = (
        f"{count:,.0f} inputs (seed {seed}): slowest {found.slowest * 1e3:.1f} ms, peak memory "
        f"+{found.grown_bytes >> 20} MiB"
    )
    return Report("\n".join((figures, *lines)), found.faults)


#: Into so many pieces input is cut at the most: time grows with them.
_PIECES = 100
_CHUNKED = b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"


def read_head(data: bytes) -> None:
    """As the head of a request is read."""
    whole = _head(data)
    step = 1 + len(data) // _PIECES
    parts = (_head(data[:length]) for length in range(step, len(data), step))
    part = next((part for part in parts if part is not None), whole)
    assert _says(part) == _says(whole), f"{_says(part)} in pieces of {step}, not {_says(whole)}"
    if isinstance(whole, Exception):
        raise whole


def read_body(data: bytes) -> None:
    """As a body in chunks is read."""
    whole = _body(data, len(data), 64 << 10)
    piece = 1 + len(data) // _PIECES
    for size in (piece, piece + 2, 64 << 10):
        part = _body(data, piece, size)
        assert _says(part) == _says(whole), f"{part} in pieces of {piece}, not {whole}"
    if isinstance(whole, Exception):
        raise whole


def _says(read: object) -> object:
    """Which of two errors is raised may depend on the pieces."""
    return "refused" if isinstance(read, Exception) else read


def _head(received: bytes) -> object:
    """Where a head ends, and what it says; None if it is not whole, or the error."""
    try:
        found = split_head(received)
    except (MalformedRequest, RequestRefused) as error:
        return error
    if found is None:
        return None
    head, end = found
    return head.fault or (end, head.target, head.path, head.authority, head.length, head.fields)


def _body(data: bytes, piece: int, size: int) -> object:
    """A body in targets of that size, and what follows it if it is whole; or the error."""
    found = split_head(_CHUNKED)
    assert found is not None
    body = BodyReceiver(found[0], memoryview(data[:piece]))
    data = data[piece:]
    content = b""
    try:
        while not body.is_at_end:
            target = memoryview(bytearray(size))
            is_enough = body.fill(target)
            while not is_enough and (body.is_behind or data):
                if body.is_behind:
                    is_enough = body.catch_up()
                else:
                    is_enough = body.feed(memoryview(data[:piece]))
                    data = data[piece:]
            content += target[: body.filled]
            if not is_enough:
                return content, None
    except (MalformedRequest, RequestRefused) as error:
        return error
    return content, bytes(body.unread) + data
