"""What reads a caller's bytes takes time in proportion to them: every pattern, and every scanner.

Each gets texts that repeat what it knows, up to the length that it may get. CPU time is measured,
so that a busy machine does not matter.
"""

from __future__ import annotations

import ast
import contextlib
import gzip
import importlib
import math
import re
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import permutations
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tensor_round.contract import errors, quoting
from tensor_round.contract.dtypes import BY_NAME
from tensor_round.contract.errors import TensorRoundError
from tensor_round.contract.operators import registry
from tensor_round.contract.operators.importers import from_dxdispatch, from_openvino
from tensor_round.contract.operators.importers.dxdispatch import parsed_document
from tensor_round.contract.wire import http1, http_fields, npy, strictjson
from tensor_round.transport.exchange import parse_retry_after
from tensor_round_service.auth import api_keys, origins
from tensor_round_service.codec import json_size, jsontensor
from tensor_round_service.grpc import messages, status
from tensor_round_service.net import codings
from tensor_round_service.net.http1 import head
from tensor_round_service.net.http1.receiving import BodyReceiver
from tensor_round_service.net.http2 import frames, huffman, limits
from tensor_round_service.net.http2.blocks import BlockReader
from tensor_round_service.net.http2.session import Session
from tensor_round_service.oip import infer_json
from tensor_round_service.pages import _matches
from tensor_round_service.process.logs import _printable
from tensor_round_service.settings import Settings

ROOT = Path(__file__).parent.parent
#: CPU time for each byte of a text that is surely not read twice: of 64 KiB it makes 20 ms, in
#: which a quadratic reader comes to no end.
QUICK = 0.3e-6
#: What readers raise.
REFUSALS = (
    TensorRoundError,
    head.MalformedRequest,
    api_keys.KeyFileError,
    limits.ConnectionFault,
    ValueError,
    EOFError,
)
KIB = 1 << 10


def seconds(call: Callable[[], object], calls: int = 3) -> float:
    """The least CPU time of so many calls; of one, if that takes long."""
    times = []
    for _ in range(calls):
        began = time.thread_time()
        with contextlib.suppress(*REFUSALS):
            call()
        times.append(time.thread_time() - began)
        if times[-1] > 1:
            break
    return min(times)


def growth(read: Callable[[Any], object], make: Callable[[int], Any], most: int) -> float:
    """The power of the length with which the time grows, over five doublings up to ``most``."""
    if seconds(partial(read, make(most)), 1) < QUICK * most:
        return 0
    times = []
    for doubling in range(6):
        times.append(seconds(partial(read, make(most >> 5 - doubling))))
        if times[-1] > 1:
            break
    return math.log2(times[-1] / times[0]) / max(1, len(times) - 1)


class Pattern(NamedTuple):
    """How a pattern is used, and the texts of which hostile ones are made for it."""

    method: str
    words: str


#: Every pattern that reads what others wrote: callers, servers, files, operators.
PATTERNS: dict[str, Pattern] = {
    "tensor_round.clients.options._NAME": Pattern("fullmatch", "a -"),
    "tensor_round.clients.options._VALUE": Pattern("fullmatch", "a \t"),
    "tensor_round.contract.operators.dialects.stablehlo_uniform._PAIR": Pattern(
        "fullmatch", "  1 . e - : 0"
    ),
    "tensor_round.contract.operators.dialects.stablehlo_uniform._QUANTIZED": Pattern(
        "fullmatch", "!quant.uniform< i8 < - 1 : >:f32 , {}"
    ),
    "tensor_round.contract.operators.dialects.stablehlo_uniform._TENSOR": Pattern(
        "fullmatch", "tensor< 1x 0x !quant.uniform< >>"
    ),
    "tensor_round.contract.operators.stablehlo_types._TENSOR": Pattern(
        "fullmatch", "tensor< 1x 0x ?x f >"
    ),
    "tensor_round.contract.operators.importers.dxdispatch._STRING_OR_COMMENT": Pattern(
        "finditer", '" \\ \\" // /* */ * /'
    ),
    "tensor_round.contract.operators.importers.dxdispatch._STRING_OR_LAST_COMMA": Pattern(
        "finditer", '" \\ \\" , ] \t a'
    ),
    "tensor_round.contract.operators.registry._INTEGER": Pattern("fullmatch", "1 a"),
    "tensor_round.contract.wire.http1._STATUS_LINE": Pattern("match", "HTTP/1.1 200 a \r\n"),
    "tensor_round.contract.wire.http1._FIELD": Pattern("findall", "a : a: a:a\r\n \r\n \r \t"),
    "tensor_round.contract.wire.http1._VARYING": Pattern("finditer", "\r\ndate: a : \r\n \r"),
    "tensor_round.contract.wire.http1._CHUNK_LINE": Pattern("match", "1 ; \t a \r"),
    "tensor_round.contract.wire.http1._TRAILERS": Pattern("fullmatch", "a : a:a\r\n \r \t"),
    "tensor_round.contract.wire.http_fields.SANE_REQUEST_ID": Pattern("fullmatch", "a - !"),
    "tensor_round.contract.wire.npy._ENTRY": Pattern("match", "' 'a' 'a':( \t ( ) 1, \" , a"),
    "tensor_round.contract.wire.npy._SIZE": Pattern("fullmatch", "1 L \t"),
    "tensor_round.contract.wire.npy._DESCR": Pattern("fullmatch", "< f 4"),
    "tensor_round.contract.wire.npy._PRINTABLE": Pattern("fullmatch", "a \t"),
    "tensor_round.contract.wire.strictjson._FRACTIONAL": Pattern("search", "1 e ."),
    "tensor_round.contract.wire.strictjson._STRING": Pattern("finditer", '" \\ \\" \\\\ a'),
    "tensor_round.contract.wire.strictjson._SURROGATES": Pattern(
        "finditer", "\\ud800 \\udc00 \\ud \\u \\ d"
    ),
    "tensor_round.transport.address._PLAIN": Pattern("fullmatch", "a \t"),
    "tensor_round.transport.address._HOST": Pattern("fullmatch", "a : :1 / . -"),
    "tensor_round_service.auth.api_keys._DIGEST": Pattern("fullmatch", "a g"),
    "tensor_round_service.net.http2.head._NAMES": Pattern("fullmatch", "a \n a\n"),
    "tensor_round_service.grpc.service._CONTENT_TYPES": Pattern(
        "fullmatch", "application/grpc+proto ; \t"
    ),
    "tensor_round_service.grpc.status._TIMEOUT": Pattern("fullmatch", "1 S"),
    "tensor_round_service.net.http2.fields._INDEXED": Pattern("match", "\x82 a"),
    "tensor_round_service.process.certificates._PEM": Pattern(
        "finditer", "-----BEGIN CERTIFICATE----- a - -----END CERTIFICATE-----"
    ),
    "tensor_round_service.process.command_line._LINK": Pattern("fullmatch", "tcp:// a : / 1"),
    "tensor_round_service.process.command_line._QUANTITY": Pattern("fullmatch", "1 . Mi"),
    "tensor_round_service.net.http1.head._METHOD": Pattern("match", "A \t"),
    "tensor_round_service.net.http1.head._REQUEST_LINE": Pattern(
        "match", "a / ? # % HTTP/1.1 \r\n"
    ),
    "tensor_round_service.net.http1.head._NAMED": Pattern("match", "a a:// @ / : . ?"),
    "tensor_round_service.net.head._AUTHORITY": Pattern("fullmatch", "a [ ] % : . 1"),
    "tensor_round_service.net.head._LAWFUL_TRACEPARENT": Pattern("fullmatch", "0 f - 00-"),
    "tensor_round_service.process.command_line._OF_KUBERNETES": Pattern(
        "fullmatch", "_ SERVICE_ PORT _PORT_1 _TCP 1"
    ),
    "tensor_round_service.net.forwarded._NODE": Pattern("fullmatch", "[ ] : 1 . a"),
    "tensor_round_service.net.forwarded._PAIR": Pattern("match", 'for = " \\ ; , a \t'),
    "tensor_round_service.process.logs._CONTROLS": Pattern("finditer", "\n a \x7f"),
    "tensor_round_service.settings._ORIGIN": Pattern("fullmatch", "http:// a : :80 [ ] . /"),
    "tensor_round_service.settings._HOST": Pattern("fullmatch", "a [ ] : ."),
}
#: Patterns that read this project's own texts alone.
OWN = {
    "tensor_round_service.oip.operations._IN_PATH",
    "tensor_round_service.pages._CODE",
    "tensor_round_service.pages._INLINE_SCRIPT",
}
#: Calls of ``re`` that compile their pattern themselves: of a message of argparse, patterns of the
#: settings' fields and of the OpenAPI document, of the head of a report's table, and of a clone's
#: own references.
CALLS = {
    "tensor_round.contract.version: match",
    "tensor_round.contract.version: search",
    "tensor_round_service.process.command_line: search",
    "tensor_round_verify.report: findall",
}


def used_patterns() -> tuple[set[str], set[str]]:
    """The names of the product's compiled patterns, and its other uses of ``re``."""
    patterns, others = set(), set()
    for package in ("client", "service", "verify", "cli"):
        for path in (ROOT / package).rglob("*.py"):
            parts = path.relative_to(ROOT / package).with_suffix("").parts
            module = ".".join(part for part in parts if part != "__init__")
            tree = ast.parse(path.read_text())
            compiled = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
            named = {
                id(node.value.func): f"{module}.{node.targets[0].id}"
                for node in tree.body
                if isinstance(node, ast.Assign)
                and isinstance(node.targets[0], ast.Name)
                and isinstance(node.value, ast.Call)
            }
            for node in ast.walk(tree):
                if not (isinstance(node, ast.Attribute) and ast.unparse(node.value) == "re"):
                    continue
                if node.attr == "compile" and id(node) in named:
                    patterns.add(named[id(node)])
                elif id(node) in compiled and node.attr not in ("sub", "escape"):
                    others.add(f"{module}: {node.attr}")
    return patterns, others


def test_every_pattern_of_the_product_is_in_the_table() -> None:
    patterns, others = used_patterns()
    assert patterns == {*PATTERNS, *OWN}
    assert others == CALLS


def hostile_texts(words: list[str], length: int) -> Iterator[str]:
    """A word, or two in turn, again and again, behind each word, and before what ends nothing."""
    for repeated in (*words, *map("".join, permutations(words, 2))):
        for before in ("", *words):
            for behind in ("", "\0", "\\"):
                yield before + repeated * (length // len(repeated)) + behind


def words_of(row: Pattern) -> list[str]:
    # A space in the table stands between words.
    return [word for word in re.split(" +", row.words) if word]


@pytest.mark.parametrize(("name", "row"), PATTERNS.items(), ids=PATTERNS)
def test_a_pattern_is_linear(name: str, row: Pattern) -> None:
    module, _, attribute = name.rpartition(".")
    pattern = getattr(importlib.import_module(module), attribute)
    texts: Iterable[Any] = hostile_texts([*words_of(row), " "], 8 * KIB)
    if isinstance(pattern.pattern, bytes):
        texts = (text.encode("latin-1") for text in texts)
    use = getattr(pattern, row.method)

    def read(text: Any) -> None:
        found = use(text)
        if row.method == "finditer":
            list(found)

    for text in texts:
        power = growth(read, partial(_cut, text), len(text))
        assert power < 1.5, (power, text[:40])


class Scanner(NamedTuple):
    """What reads a text, the longest text that it gets, and hostile ones: before, again, behind."""

    read: Callable[[bytes], object]
    most: int
    texts: list[tuple[bytes, bytes, bytes]]


def chunked(data: bytes) -> None:
    found = head.split_head(b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n")
    assert found is not None
    BodyReceiver(found[0], memoryview(data)).skip()


def of_client(data: bytes) -> None:
    body = http1.BodyReader(None, bytearray(data), is_chunked=True, trailers=True)
    memory = memoryview(bytearray(len(data) + 1))
    while body.read_into(memory):
        pass


def decoded(data: bytes) -> None:
    decoder = codings.decoder_for("gzip")
    assert decoder is not None
    decoder.feed(data)
    while decoder.decode(codings.STEP_BYTES):
        pass


def blocks(data: bytes) -> None:
    reader = BlockReader(limits.SessionLimits())
    reader.head(data)


def session(data: bytes) -> None:
    settings = frames.frame(frames.Kind.SETTINGS, 0, 0, b"")
    found: Session[Any] = Session(lambda *_: None, limits.SessionLimits(), lambda: 0.0)
    found.receive(memoryview(frames.PREFACE + settings + data))


def document(data: bytes) -> Any:
    bounds = strictjson.Limits(10_000, 1 << 20)
    return strictjson.plain(json_size.loads_exact(data, bounds))


def numbers(dtype: str, data: bytes) -> None:
    parsed = json_size.loads_exact(data, strictjson.Limits(100, 1 << 20))
    jsontensor.read(parsed, BY_NAME[dtype], [len(parsed)], any_nesting=True)


def descriptor(data: bytes) -> None:
    registry.parse(data).resolve()


def settings(name: str, data: bytes) -> None:
    Settings.model_validate({name: data.decode("latin-1"), "backend": "numpy"})


STRINGS = [
    (before, again, behind)
    for before in (b"", b'"', b'{"a":"', b"[")
    for again in (b'"', b'\\"', b'\\",', b"\\", b'"\\', b'"a",', b"\\ud800", b'"\\u')
    for behind in (b"", b"\\", b'"')
]
NESTED = [(b"", b"[", b""), (b"", b'{"a":', b""), (b"", b"[]", b""), (b"[", b"[],", b"[]]")]
NUMBERS = [
    (before, again, behind)
    for before in (b"[", b"[0.", b"[1.0004882812500", b"[-")
    for again in (b"1", b"0", b"1,", b"-", b"e", b"1e9,", b"1.5e-400,")
    for behind in (b"1]", b"]", b"e99999]")
]
LINES = [
    (b"GET / HTTP/1.1\r\nhost: a\r\n", again, behind)
    for again in (b"a", b"a:", b"a:\r\n", b"a\r\n", b"\r", b"a: b,", b" ", b"connection:a,")
    for behind in (b"\r\n\r\n", b"", b"\0\r\n\r\n")
]
ANSWERS = [(before.replace(b"GET / HTTP/1.1", b"HTTP/1.1 400 "), a, b) for before, a, b in LINES]
LISTS = [
    (b"", again, b"") for again in (b",", b"a,", b"a;", b";q=1,", b" ", b"=", b"q=", b'"', b":")
]
CHUNKS = [
    *((b"", again, b"0\r\n\r\n") for again in (b"1\r\na\r\n", b"1;a\r\nb\r\n")),
    *((b"", again, b"") for again in (b"1", b"1;", b"1 ", b";", b"\r")),
    *((b"0\r\n", again, b"\r\n") for again in (b"a:\r\n", b"a", b"a:a", b"\r")),
]
XML = [
    (b"<layer", again, behind)
    for again in (b" a='1'", b">", b"<a>", b"<!--", b"<a/>", b"&amp;", b"&a;", b"<![CDATA[")
    for behind in (b"", b"/>", b"></layer>")
]
MEMBERS = b'{"a":"","b":['
COUNTED = [(b"[", b'["\\",', b"1]]"), (MEMBERS, b'"\\u0041",', b"1]}")]

#: Every function that reads what others wrote by a loop, a split or a pattern.
SCANNERS: dict[str, Scanner] = {
    "strict-json": Scanner(document, 64 * KIB, [*STRINGS, *NESTED, *NUMBERS]),
    "bounded-json": Scanner(
        lambda data: strictjson.loads(data, max_depth=16, max_values=99), 32 * KIB,
        [*STRINGS, *NESTED],
    ),
    "json-size": Scanner(json_size.measure_json, 64 * KIB, [*STRINGS, *NESTED, *COUNTED]),
    "descriptor": Scanner(descriptor, 16 * KIB, [
        *STRINGS, *NESTED,
        *((b'{"operator":"onnx","dtype":"float32","shape":[', each, b"1]}") for each in (b"1,",)),
        *((b'{"dialect":"stablehlo","op":"', each, b'"}') for each in (b"a", b"1x")),
        *((b'{"dialect":"stablehlo","op":"round_nearest_afz","operand":"tensor<', each, b'f32>"}')
          for each in (b"1x", b"1", b"x")),
    ]),
    "operator": Scanner(
        lambda data: registry.operator_from_text(data.decode("latin-1")), 32 * KIB,
        [(before, again, b"") for before in (b"", b"onnx:", b"mlir:") for again in (b":", b"1:")],
    ),
    **{
        f"numbers-{dtype}": Scanner(partial(numbers, dtype), 64 * KIB, NUMBERS)
        for dtype in ("float16", "float64", "int64")
    },
    "dxdispatch": Scanner(
        lambda data: parsed_document(b"{" + data), 16 * KIB,
        [*STRINGS, (b"", b"/*", b""), (b"", b"//", b""), (b"", b" ,", b""), (b"[", b"1, ", b"]")],
    ),
    "dxdispatch-operator": Scanner(from_dxdispatch, 64 * KIB, [
        (b'{"dispatchables":{', b'"a":{"type":"ELEMENT_WISE_ROUND"},', b'"b":1}}'),
    ]),
    "openvino": Scanner(from_openvino, 64 * KIB, XML),
    "npy": Scanner(
        lambda data: npy.read_header(b"\x93NUMPY\2\0" + len(data).to_bytes(4, "little") + data),
        8 * KIB, [(b"{", again, b"}") for again in (b" ", b"'a':", b"'shape':(", b"1,", b"'")],
    ),
    "response": Scanner(http1.split_head, 48 * KIB, ANSWERS),
    "response-body": Scanner(of_client, 64 * KIB, CHUNKS),
    "digests": Scanner(
        lambda data: (http_fields.parse_content_digest([data.decode("latin-1")]),
                      http_fields.wanted_digest([data.decode("latin-1")])), 32 * KIB, LISTS,
    ),
    "media-type": Scanner(lambda data: http_fields.media_type(data.decode()), 32 * KIB, LISTS),
    "retry-after": Scanner(
        lambda data: parse_retry_after(data.decode()), 48 * KIB,
        [*LISTS, *((b"Mon, 1", again, b"") for again in (b" 1", b"-", b":", b".1", b"+1", b"("))],
    ),
    "problem": Scanner(
        lambda data: errors.from_problem({"detail": data.decode()}, status=400), 64 * KIB, LISTS,
    ),
    "quoted": Scanner(
        lambda data: (quoting.shown(data.decode()), quoting.not_accepted(data.decode(), BY_NAME)),
        64 * KIB, LISTS,
    ),
    "request": Scanner(head.split_head, 30 * KIB, LINES),
    "path": Scanner(head.path_of, 32 * KIB, [(b"GET ", b"?", b""), (b"", b"a", b"")]),
    "target": Scanner(
        lambda data: head.split_head(b"GET " + data + b" HTTP/1.1\r\nhost: a\r\n\r\n"), 30 * KIB,
        [(before, again, b"") for before in (b"", b"/", b"http://")
         for again in (b"%", b"%41", b"@", b"?", b"#", b"/", b"a")],
    ),
    "request-body": Scanner(chunked, 64 * KIB, CHUNKS),
    "accept": Scanner(
        lambda data: codings.preferred_coding(data.decode(), ("gzip",)), 32 * KIB, LISTS
    ),
    "gzip": Scanner(decoded, 64 * KIB, [
        (b"", gzip.compress(each, mtime=0), b"") for each in (b"", bytes(40), bytes(4000))
    ]),
    "etags": Scanner(lambda data: _matches([data.decode()], '"a"'), 32 * KIB, LISTS),
    "host": Scanner(origins.allow_hosts(frozenset()), 32 * KIB, [
        (before, again, b"") for before in (b"", b"[") for again in (b":", b"1.", b"a", b"[", b"]")
    ]),
    "key-file": Scanner(api_keys.read_keys, 64 * KIB, [
        (b"", again, b"") for again in (b" ", b"\n", b"#", b"a ", b"#\n")
    ]),
    "hosts": Scanner(partial(settings, "allowed_hosts"), 32 * KIB, LISTS),
    "origins": Scanner(partial(settings, "cors_origins"), 32 * KIB, LISTS),
    "log-line": Scanner(lambda data: _printable(data.decode()), 64 * KIB, [(b"", b"\n", b"")]),
    "deadline": Scanner(status.seconds_of, 16 * KIB, [(b"", b"1", b"S")]),
    "huffman": Scanner(huffman.decode, 64 * KIB, [(b"", each, b"") for each in (b"\0", b"\xff")]),
    "header-block": Scanner(blocks, 16 * KIB, [
        *((b"", again, b"") for again in (b"\x20", b"\x82", b"\x00\x01a\x00", b"\x40\x00\x00")),
        (b"\x40\x01a\x7f\x81\x1e" + bytes(4000), b"\xbe", b""), (b"", b"\x3f\xe1\x1f", b""),
    ]),
    "frames": Scanner(session, 64 * KIB, [
        (b"", frames.frame(kind, 0, 0, payload), b"") for kind, payload in (
            (frames.Kind.PING, bytes(8)), (frames.Kind.SETTINGS, b""), (frames.Kind.PRIORITY, b""),
        )
    ]),
    "message": Scanner(messages.read_request, 16 * KIB, [
        (b"", again, b"") for again in
        (b"\x0a\x00", b"\x22\x00", b"\x2a\x00", b"\x3a\x00", b"\x80", b"\x0a\x01a", b"\x3a\x01a")
    ]),
    "tensor-of-message": Scanner(messages.find_tensor, 32 * KIB, [
        (b"", again, b"") for again in (b"\x0a\x00", b"\x22\x00", b"\xfa\x01\x00")
    ]),
    "inference": Scanner(infer_json.read_request, 64 * KIB, [
        *STRINGS, *NESTED, (b'{"inputs":[', b"{},", b"{}]}"), (b'{"inputs":[', b"1,", b"1]}"),
        (b'{"inputs":[{"name":"x","datatype":"FP32","shape":[1],"data":[', b"1,", b"1]}]}"),
        (b'{"inputs":[],"outputs":[', b'{"name":"y"},', b"{}]}"),
    ]),
}  # fmt: skip


@pytest.mark.parametrize("row", SCANNERS.values(), ids=SCANNERS)
def test_a_scanner_is_linear(row: Scanner) -> None:
    for before, again, behind in row.texts:
        size = row.most - len(before) - len(behind)
        texts = partial(_repeated, before, again, behind)
        power = growth(row.read, texts, size)
        assert power < 1.5, (power, before, again, behind)


def _cut(text: Any, length: int) -> Any:
    """The begin of a text and its last character, which may be that where all fails."""
    return text[: length - 1] + text[-1:]


def _repeated(before: bytes, again: bytes, behind: bytes, length: int) -> bytes:
    return before + again * (length // len(again)) + behind
