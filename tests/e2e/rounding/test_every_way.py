"""What every way to have a tensor rounded obeys: one table of cases a rule, run over the ways.

The ways are ``/round`` in its three representations, ``/v2`` over HTTP and gRPC, both clients,
``local:`` and the command line.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensor_round as tr
from support.cases.array_cases import (
    Array,
    bits,
    dtype_name,
    expected_bits,
    off_wire,
    on_wire,
    patterns,
)
from support.cases.backend_calls import expected
from support.cases.descriptors import (
    CASES,
    DOCUMENTS,
    STRIDED,
    call_of,
    ieee754,
    payload_of,
    varied,
)
from support.cases.dialect import Document
from support.cases.every import every
from support.clients import AnyClient, SteppedClient
from support.command_line import run
from support.http.inference_form import Outcome, binary, document, error_of, infer, tensor
from support.http.native_form import npy as npy_file
from support.http.native_form import post
from support.services.server import Reply, Service
from support.v2.grpc_caller import GrpcCaller
from tensor_round.contract.dtypes import BY_NAME
from tensor_round.contract.host_memory import elements
from tensor_round.contract.operators.registry import operator_from_text
from tensor_round_verify.reference import ROUNDINGS, WIDTHS, all_patterns

#: Types for which the inference protocol has no name.
CARRIED = tuple(row.name for row in BY_NAME.values() if row.oip is None)
#: Those for which a .npy file has no name.
UNNAMED = ("bfloat16", *CARRIED)


class Refused(Exception):
    """A refusal; its text is what the caller reads."""


@dataclass(frozen=True)
class Asked:
    """A tensor, and its operator as one word.

    ``document`` is the descriptor, where that of the word could not be made.
    """

    word: str
    x: Array
    document: Document | None = None

    @property
    def dtype(self) -> str:
        return dtype_name(self.x)

    @property
    def datatype(self) -> str:
        return BY_NAME[self.dtype].oip or "UINT8"

    @property
    def descriptor(self) -> Document:
        if self.document is not None:
            return self.document
        operator = operator_from_text(self.word)
        text = operator.descriptor(self.x.dtype, self.x.shape).to_json()
        return dict(json.loads(text))

    @property
    def numbers(self) -> Any:
        """The elements as JSON has them."""
        return self.x.astype(float if BY_NAME[self.dtype].is_float else object).tolist()

    @property
    def payload(self) -> bytes:
        """The elements as bytes on the wire."""
        return on_wire(self.x)

    @property
    def carried_shape(self) -> list[int]:
        """The shape in the inference protocol: that of the bytes, if they have two elements."""
        halves = BY_NAME[self.dtype].is_sub_byte
        return [len(self.payload)] if halves else list(self.x.shape)

    def inference(self, source: dict[str, Any]) -> tuple[dict[str, Any], str, str]:
        """A request of ``/v2`` with this input, its model and its version."""
        dialect, *attributes = self.word.split(":")
        if dialect not in CASES:
            dialect, attributes = "ieee754", [dialect]
        model = CASES[dialect].model
        parameters = {"dtype": self.dtype} if self.dtype in CARRIED else {}
        if attributes and model.mode_parameter is not None:
            parameters[model.mode_parameter] = attributes.pop(0)
        return document(source, parameters=parameters), model.name, "".join(attributes)

    def rounded(self, content: bytes) -> Array:
        """The elements of a response, which may have padding behind them."""
        length = len(self.payload)
        assert not any(content[length:])
        elements = off_wire(content[:length], self.dtype, self.x.size)
        assert on_wire(elements) == content[:length], "spare bits are 0"
        return elements.view(self.x.dtype).reshape(self.x.shape)

    def stored(self, content: bytes) -> Array:
        """The elements in a .npy file of the same size, where each has a byte at least."""
        data = content[len(content) - self.x.nbytes :]
        return np.frombuffer(data, self.x.dtype).reshape(self.x.shape)

    def rounded_numbers(self, numbers: Any) -> Array:
        return np.array(numbers, self.x.dtype).reshape(self.x.shape)


Way = Callable[[Service, Asked], Array]


def content_of(reply: Reply) -> bytes:
    """The content of a response of ``/round``."""
    if reply.status != 200:
        problem = reply.json()
        assert (reply.status, problem["code"]) == (422, "invalid_descriptor"), problem
        raise Refused(problem["detail"])
    return reply.content


def octets(service: Service, asked: Asked) -> Array:
    reply = post(service, json.dumps(asked.descriptor), asked.payload)
    return asked.rounded(content_of(reply))


def in_json(service: Service, asked: Asked) -> Array:
    """By the descriptor, and where the word has one, by its short form: alike."""
    bodies = [{"descriptor": asked.descriptor, "data": asked.numbers}]
    if asked.document is None and asked.x.size:
        bodies += [{"operator": asked.word, "dtype": asked.dtype, "data": asked.numbers}]
    fields = {"Content-Type": "application/json"}
    replies = [
        content_of(service.request("POST", "/round", json.dumps(body).encode(), fields))
        for body in bodies
    ]
    assert replies[0] == replies[-1]
    response = json.loads(replies[0])
    assert response["output"] == {"dtype": asked.dtype, "shape": list(asked.x.shape)}
    return asked.rounded_numbers(response["data"])


def npy(service: Service, asked: Asked) -> Array:
    file = npy_file(asked.x)
    query = f"operator={asked.word}" + f"&dtype={asked.dtype}" * (asked.dtype in UNNAMED)
    fields = {"Content-Type": "application/x-npy"}
    reply = service.request("POST", f"/round?{query}", file, fields)
    content = content_of(reply)
    assert len(content) == len(file)
    return asked.stored(content)


def inference(service: Service, asked: Asked) -> Array:
    source = binary(asked.datatype, asked.carried_shape, len(asked.payload))
    request, model, version = asked.inference(source)
    request["parameters"]["binary_data_output"] = True
    reply = infer(service, request, asked.payload, model, version or None)
    if reply.status == 400:
        raise Refused(error_of(reply))
    return asked.rounded(Outcome.of(reply).payload)


def inference_in_json(service: Service, asked: Asked) -> Array:
    is_carried = asked.dtype in CARRIED
    data = list(asked.payload) if is_carried else Asked("", asked.x.reshape(-1)).numbers
    source = tensor(asked.datatype, asked.carried_shape, data=data)
    request, model, version = asked.inference(source)
    reply = infer(service, request, None, model, version or None)
    if reply.status == 400:
        raise Refused(error_of(reply))
    data = Outcome.of(reply).output["data"]
    return asked.rounded(bytes(data)) if is_carried else asked.rounded_numbers(data)


def grpc(service: Service, asked: Asked) -> Array:
    source = binary(asked.datatype, asked.carried_shape, len(asked.payload))
    request, model, version = asked.inference(source)
    outcome = GrpcCaller(service).infer(request, asked.payload, model, version)
    if outcome.status == 400:
        raise Refused(outcome.error)
    return asked.rounded(outcome.payload)


def by_client(kind: type[AnyClient], url: str | None = None) -> Way:
    def way(service: Service, asked: Asked) -> Array:
        with kind(url or service.url) as client:
            try:
                y = client.round(asked.x, asked.word)
            except tr.InvalidDescriptor as refusal:
                raise Refused(str(refusal)) from None
        assert (y.dtype, y.shape) == (asked.x.dtype, asked.x.shape)
        return np.asarray(y)

    return way


def command_line(service: Service, asked: Asked) -> Array:
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "in.npy"), Path(folder, "out.npy")
        np.save(source, asked.x)
        kind = ["--dtype", asked.dtype] if asked.dtype in UNNAMED else []
        arguments = ["round", *map(str, (source, target)), "--operator", asked.word, *kind]
        environment = {**os.environ, "TENSOR_ROUND_URL": service.url}
        done = run([*arguments, "--json"], environment)
        if done.returncode:
            assert not target.exists()
            raise Refused(json.loads(done.stderr)["error"]["detail"])
        return asked.stored(target.read_bytes())


#: Those that carry bits, and those that carry decimal numbers, which have no NaN's payload.
BITS: dict[str, Way] = {
    "octets": octets,
    "npy": npy,
    "inference": inference,
    "grpc": grpc,
    "client": by_client(tr.Client),
    "asyncio": by_client(SteppedClient),
    "local": by_client(tr.Client, "local:"),
    "command line": command_line,
}
WAYS = BITS | {"json": in_json, "inference in json": inference_in_json}


def over(ways: dict[str, Any]) -> pytest.MarkDecorator:
    """Run a test over these ways."""
    unproxied = pytest.mark.not_behind("nginx", reason="it takes HTTP/1.1 alone")
    params = [
        pytest.param(way, id=name, marks=[unproxied] * (name == "grpc"))
        for name, way in ways.items()
    ]
    return pytest.mark.parametrize("way", params)


@over(BITS)
def test_every_pattern_of_every_dtype_is_exact(service: Service, way: Way) -> None:
    def check(dtype: str) -> None:
        if WIDTHS[dtype] <= 16 and "float" in dtype:
            x = all_patterns(dtype).view(BY_NAME[dtype].numpy).reshape(16, -1)
            x = x if x.size > 16 else np.resize(x, (9, 17))  # an odd number of elements
        else:
            x = patterns(dtype, 3000).reshape(50, 60)
        if way is npy and dtype == "float8_e5m2":
            return  # NumPy writes no file of it that it can read
        y = way(service, Asked("ties_to_away", x))
        assert np.array_equal(bits(y), expected_bits(x, "ties_to_away"))

    every(check, WIDTHS)


@over(BITS)
def test_every_direction_is_exact(service: Service, way: Way) -> None:
    def check(rounding: str, dtype: str) -> None:
        x = patterns(dtype, 4097)
        y = way(service, Asked(rounding, x))
        assert np.array_equal(bits(y), expected_bits(x, rounding))

    every(check, ROUNDINGS, ("float16", "float64"))


#: Numbers that a specification gives for an operator on a dtype.
EXAMPLES = [
    (":".join(filter(None, (dialect, example.mode, example.version))), example, dtype)
    for dialect, cases in CASES.items()
    for example in cases.examples.values()
    for dtype in example.dtypes
]


@over(WAYS)
def test_examples_of_the_specifications_are_right(service: Service, way: Way) -> None:
    def check(case: Any) -> None:
        word, example, dtype = case
        source, result = example.arrays(dtype)
        for shape in example.shapes or (source.shape,):
            y = way(service, Asked(word, source.reshape(shape)))
            assert np.array_equal(bits(y), bits(result.reshape(shape)))

    # A process a case: one dtype a word is enough.
    some = {word: case for case in EXAMPLES for word in [case[0]]}.values()
    every(check, some if way is command_line else EXAMPLES)


def test_every_mode_of_every_dialect_has_an_example() -> None:
    """IEEE 754 gives no numbers."""
    for dialect, cases in CASES.items():
        modes = {example.mode for example in cases.examples.values()} - {""}
        assert modes == (set() if dialect == "ieee754" else cases.modes.keys())
        assert bool(cases.examples) == (dialect != "ieee754")


@over(WAYS)
@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3), (1, 1, 5), (1,) * 30 + (2, 2)], ids=str)
def test_every_shape_comes_back(service: Service, way: Way, shape: tuple[int, ...]) -> None:
    y = way(service, Asked("onnx", np.full(shape, 2.5, "<f4")))
    assert np.array_equal(y, np.full(shape, 2))


#: Word, dtype, shape; the example's changes that make the descriptor; what each refusal says.
REFUSALS: dict[str, tuple[str, str, tuple[int, ...], Document, str]] = {
    "direction": ("up", "float32", (2,), varied("ieee754", {"rounding": "up"}), "toward_positive"),
    "mode": (
        "openvino:up", "float32", (2, 3), varied("openvino", {"data.mode": "up"}),
        "half_away_from_zero",
    ),
    "integers": (
        "onnx:22", "int32", (2, 3), varied("onnx", {"input.elem_type": "INT32"}),
        "got .?INT32.?; .* takes (FLOAT16, FLOAT, DOUBLE|FP16, FP32, FP64), (BFLOAT16|BF16)",
    ),
    "version": (
        "onnx:11", "bfloat16", (2, 3),
        varied("onnx", {"opset_version": 11, "input.elem_type": "BFLOAT16"}),
        "got .?(BFLOAT16|BF16).?; .*11.* takes (FLOAT16, FLOAT, DOUBLE|FP16, FP32, FP64)",
    ),
    "dtype": (
        "directml:TOWARD_ZERO:6_4", "float64", (2, 3),
        varied(
            "directml",
            {f"desc.{side}Tensor.DataType": "FLOAT64" for side in ("Input", "Output")},
        ),
        "got .?(FLOAT64|FP64).?; .* takes ",
    ),
    "rank": (
        "directml:TOWARD_ZERO:2_1", "float32", (2, 3),
        varied("directml", {"feature_level": "2_1"}),
        "directml 2_1: ELEMENT_WISE_ROUND takes exactly 4 dimensions, got 2",
    ),
    "no elements": (
        "directml:TOWARD_ZERO:6_4", "float32", (2, 0),
        varied("directml", {f"desc.{side}Tensor.Sizes": [2, 0] for side in ("Input", "Output")}),
        "at least 1",
    ),
}  # fmt: skip


@over(WAYS)
@pytest.mark.parametrize("case", REFUSALS.values(), ids=REFUSALS)
def test_rules_of_the_dialects_hold(service: Service, way: Way, case: Any) -> None:
    word, dtype, shape, document, says = case
    x = np.zeros(shape, BY_NAME[dtype].numpy)
    with pytest.raises(Refused, match=says):
        way(service, Asked(word, x, document))


#: What is asked for by a whole descriptor, and the bytes that come.
Execution = Callable[[Service, Document, bytes], bytes]


def executed_by_client(kind: type[AnyClient], url: str | None = None) -> Execution:
    def way(service: Service, document: Document, payload: bytes) -> bytes:
        with kind(url or service.url) as client:
            result = client.execute(document, payload)
        call = call_of(document)
        assert result.layout == (
            call.output.dtype.numpy,
            call.output.shape,
            call.output.strides,
            call.output.byte_length,
        )
        seen = elements(np.frombuffer(bytes(result.data), np.uint8), call.output)
        assert np.array_equal(bits(result.numpy()), bits(seen))
        assert result.numpy().strides == seen.strides
        return bytes(result.data)

    return way


def executed_by_http(service: Service, document: Document, payload: bytes) -> bytes:
    reply = post(service, json.dumps(document), payload)
    if reply.status != 200:
        raise Refused(reply.json()["detail"])
    output = call_of(document).output
    assert json.loads(reply.headers["Output-Descriptor"]) == {
        "dtype": output.dtype.name,
        "shape": list(output.shape),
        "strides": list(output.strides),
        "byte_length": output.byte_length,
    }
    return reply.content


def executed_by_command(service: Service, document: Document, payload: bytes) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "d.json").write_text(json.dumps(document))
        arguments = ["execute", "--descriptor", f"{folder}/d.json", "-", "-", "--json"]
        environment = {**os.environ, "TENSOR_ROUND_URL": service.url}
        done = run(arguments, environment, given=payload)
    if done.returncode:
        raise Refused(json.loads(done.stderr)["error"]["detail"])
    return done.stdout


EXECUTIONS: dict[str, Execution] = {
    "octets": executed_by_http,
    "client": executed_by_client(tr.Client),
    "asyncio": executed_by_client(SteppedClient),
    "local": executed_by_client(tr.Client, "local:"),
    "command line": executed_by_command,
}


@over(EXECUTIONS)
@pytest.mark.parametrize("document", DOCUMENTS.values(), ids=DOCUMENTS)
def test_bytes_lie_as_the_descriptor_says(
    service: Service, way: Execution, document: Document
) -> None:
    """Strides, gaps, padding, broadcasts: what no element covers is zero."""
    call = call_of(document)
    payload = payload_of(call)
    assert way(service, document, payload) == expected(call, payload)


#: Descriptors and payloads, and why they are refused.
UNEXECUTED: dict[str, tuple[Document, bytes, str]] = {
    "dialect": ({"dialect": "tflite"}, b"", 'dialect: got "tflite"; accepted: ieee754, onnx'),
    "field": ({**ieee754("float32", [2]), "axis": 1}, bytes(8), "axis: unknown field"),
    "coerced": (ieee754("float32", ["2"]), bytes(8), "must be an integer"),
    "rank": ({**STRIDED, "feature_level": "2_1"}, bytes(40), "exactly 4 dimensions, got 2"),
    "short": (STRIDED, bytes(36), "must have 40 bytes .* got 36"),
    "long": (STRIDED, bytes(44), "must have 40 bytes .* got 44"),
    "half a byte too many": (ieee754("int4", [3]), bytes(3), "must have 2 bytes .* got 3"),
    "4 bits in columns": (
        ieee754("int4", [2, 3], strides=[1, 2]),
        bytes(3),
        r"strides.* must be those of packed C order for int4",
    ),
    "amplified": (
        ieee754("int8", [1 << 60], strides=[0]),
        b"x",
        "the output tensor has|allocate memory",
    ),
    "vast": (ieee754("int8", [1 << 60]), b"", "the input tensor has|must have"),
}


@over(EXECUTIONS)
@pytest.mark.parametrize("case", UNEXECUTED.values(), ids=UNEXECUTED)
def test_descriptors_and_payloads_are_refused(
    service: Service, way: Execution, case: tuple[Document, bytes, str]
) -> None:
    document, payload, says = case
    with pytest.raises((Refused, tr.TensorRoundError), match=says):
        way(service, document, payload)
