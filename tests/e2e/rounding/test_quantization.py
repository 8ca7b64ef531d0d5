"""Linear quantization by every way: one table of cases, and of what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, cast
from urllib.parse import urlencode

import numpy as np
import pytest

import tensor_round as tr
from support.cases.array_cases import Array, bits, off_wire, on_wire
from support.cases.descriptors import CASES
from support.cases.dialect import OperatorCases
from support.cases.every import every
from support.cases.linear_calls import Operands, operands_of, payload_of, right
from support.http.inference_form import Outcome, binary, infer, tensor
from support.http.native_form import npy, post
from support.services.server import Service
from support.v2.callers import Caller
from support.v2.grpc_caller import GrpcCaller
from tensor_round.contract.call import Call
from tensor_round.contract.dtypes import BY_NAME
from tensor_round.contract.operators import registry
from tensor_round.contract.operators.operator import LinearOperator

Document = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """A quantization by its word: types and shapes of operand, scale and zero point.

    Without ``point`` there is none, and ``to`` is the type of the result.
    """

    word: str
    x: tuple[str, tuple[int, ...]]
    scale: tuple[str, tuple[int, ...]]
    point: str | None = None
    to: str | None = None
    attributes: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def operator(self) -> LinearOperator:
        kind = self.cases.kind
        made = registry.operator_from_text(self.word, to=self.to, kind=kind, **self.attributes)
        return cast(LinearOperator, made)

    @property
    def cases(self) -> OperatorCases:
        """What is expected of the operator."""
        linear = [cases for cases in CASES.values() if cases.kind.is_linear]
        return next(each for each in linear if f"{self.word}:".startswith(f"{each.word}:"))

    @cached_property
    def descriptor(self) -> Document:
        point: Any = self.point and (self.point, self.scale[1])
        types: tuple[Any, ...] = (*self.x, self.scale, point)
        return dict(json.loads(self.operator.descriptor(*types).to_json()))

    @cached_property
    def call(self) -> Call:
        return registry.validate(self.descriptor).resolve()

    @cached_property
    def operands(self) -> Operands:
        return operands_of(self.call, 7)

    @cached_property
    def expected(self) -> Array:
        """The reference's results, which take a while."""
        return right(self.call, self.operands)

    @cached_property
    def tensors(self) -> dict[str, Array]:
        """The operands in their shapes, by the members of JSON."""
        found = {"data": self.operands.x.view(BY_NAME[self.x[0]].numpy)}
        found["scale"] = self.operands.scale.view(BY_NAME[self.scale[0]].numpy)
        if self.point is not None and self.operands.zero_point is not None:
            found["zero_point"] = self.operands.zero_point.view(BY_NAME[self.point].numpy)
        shapes = (self.x[1], *[self.scale[1]] * 2)
        return {
            name: x.reshape(shape) for (name, x), shape in zip(found.items(), shapes, strict=False)
        }

    @property
    def inputs(self) -> dict[str, Array]:
        """The operands by the names of the specification."""
        model = self.cases.model
        names = (model.input, *model.parameters)
        return dict(zip(names, self.tensors.values(), strict=False))

    def request(self, given: Callable[[str, Array], Document]) -> Document:
        """A request of ``/v2``, the inputs from the last to the first."""
        beside = {} if self.to is None else {"to": self.to}
        return {
            "inputs": [given(name, x) for name, x in reversed(self.inputs.items())],
            "parameters": {**beside, **self.attributes},
        }

    @property
    def model(self) -> tuple[str, str]:
        """The model of ``/v2``, and its version."""
        cases = self.cases
        return cases.model.name, self.word.removeprefix(cases.word).strip(":")

    def result(self, content: bytes) -> Array:
        """The elements of a response of bytes."""
        return bits(off_wire(content, self.call.output.dtype.name, self.call.input.element_count))

    def numbers(self, found: Any) -> Array:
        """The elements of a response in JSON."""
        flat = np.array(found, object).reshape(-1)
        read = [float(number) if isinstance(number, str) else number for number in flat]
        return bits(np.array(read, self.call.output.dtype.numpy))


def numbers(x: Array) -> Any:
    """The elements as JSON has them."""
    is_float = BY_NAME[x.dtype.name].is_float
    return x.astype(float if is_float else object).tolist()


def carried(name: str, x: Array) -> tuple[str, list[int], Document]:
    """Datatype and shape of an input of ``/v2``, and its parameters."""
    dtype = BY_NAME[x.dtype.name]
    shape = [*x.shape]
    if dtype.is_sub_byte:
        is_even = bool(shape) and shape[-1] % 2 == 0
        shape = [*shape[:-1], shape[-1] // 2] if is_even else [-(-x.size // 2)]
    return dtype.oip or "UINT8", shape, {} if dtype.oip else {"dtype": dtype.name}


def octets(service: Service, case: Case) -> Array:
    reply = post(service, json.dumps(case.descriptor), payload_of(case.call, case.operands))
    assert reply.status == 200, reply.content
    return case.result(reply.content)


def sent(service: Service, body: Document) -> Any:
    fields = {"Content-Type": "application/json"}
    reply = service.request("POST", "/round", json.dumps(body).encode(), fields)
    assert reply.status == 200, reply.content
    return reply.json()


def in_json(service: Service, case: Case) -> Array:
    given = {name: numbers(x) for name, x in case.tensors.items()}
    answer = sent(service, {"descriptor": case.descriptor, **given})
    output = {"dtype": case.call.output.dtype.name, "shape": [*case.x[1]]}
    assert answer["output"] == output
    return case.numbers(answer["data"])


def in_short(service: Service, case: Case) -> Array:
    """Types of scales and zero points are those by default."""
    given = {name: numbers(x) for name, x in case.tensors.items()}
    if not case.call.input.element_count:  # its lists do not tell
        given["shape"] = [*case.x[1]]
    attributes = {"to": case.to or (case.point if case.operator.kind == "quantize" else None)}
    body = {"operator": case.word, "dtype": case.x[0], **case.attributes, **given, **attributes}
    return case.numbers(sent(service, body)["data"])


def of_bytes(name: str, x: Array) -> Document:
    datatype, shape, parameters = carried(name, x)
    return {
        "name": name, "datatype": datatype, "shape": shape,
        "parameters": {**parameters, "binary_data_size": len(on_wire(x))},
    }  # fmt: skip


def called_by(kind: type[Caller]) -> Callable[[Service, Case], Array]:
    def way(service: Service, case: Case) -> Array:
        payload = b"".join(map(on_wire, reversed(case.inputs.values())))
        outcome = kind(service).infer(case.request(of_bytes), payload, *case.model)
        return case.result(outcome.payload)

    return way


def inference_in_json(service: Service, case: Case) -> Array:
    def given(name: str, x: Array) -> Document:
        datatype, shape, parameters = carried(name, x)
        data = [*on_wire(x)] if parameters else numbers(x.reshape(-1))
        return tensor(datatype, shape, name, data=data, parameters=parameters)

    model, version = case.model
    reply = infer(service, case.request(given), None, model, version or None)
    data = Outcome.of(reply).output["data"]
    if case.call.output.dtype.oip is None:
        return case.result(bytes(data))
    return case.numbers(data)


def by_client(url: str | None = None) -> Callable[[Service, Case], Array]:
    def way(service: Service, case: Case) -> Array:
        with tr.Client(url or service.url) as client:
            found = client.execute(case.descriptor, payload_of(case.call, case.operands))
        return case.result(bytes(found.data))

    return way


WAYS: dict[str, Callable[[Service, Case], Array]] = {
    "octets": octets,
    "json": in_json,
    "short": in_short,
    "inference": called_by(Caller),
    "inference in json": inference_in_json,
    "grpc": called_by(GrpcCaller),
    "client": by_client(),
    "local": by_client("local:"),
}
QUANTIZE, DEQUANTIZE = "onnx:QuantizeLinear", "onnx:DequantizeLinear"
CALLS = [
    Case(f"{QUANTIZE}:10", ("float32", (2, 3)), ("float32", ()), "int8"),
    Case(f"{QUANTIZE}:10", ("int32", (5,)), ("float32", ()), "uint8"),
    Case(f"{QUANTIZE}:13", ("float32", (2, 3, 4)), ("float32", (3,)), "uint8"),
    Case(f"{QUANTIZE}:19", ("float16", (20, 4)), ("float16", (4,)), "float8_e4m3fn"),
    Case(f"{QUANTIZE}:21", ("bfloat16", (4, 6)), ("bfloat16", ()), "int16"),
    Case(f"{QUANTIZE}:21", ("float32", (3, 4)), ("float32", (3,)), "int4", attributes={"axis": 0}),
    Case(f"{QUANTIZE}:23", ("float32", (65, 4)), ("float32", (3, 4)), None, "float4_e2m1fn",
         {"axis": 0, "block_size": 32}),
    Case(f"{QUANTIZE}:25", ("float32", (0, 3)), ("float32", (3,)), "int8"),
    Case(f"{QUANTIZE}:25", ("float32", (1,) * 30 + (2, 2)), ("float32", (1,)), None, "uint4"),
    Case(f"{DEQUANTIZE}:10", ("int32", (2, 3)), ("float32", ())),
    Case(f"{DEQUANTIZE}:13", ("int8", (2, 3)), ("float32", (3,)), "int8"),
    Case(f"{DEQUANTIZE}:19", ("float8_e5m2", (40,)), ("float16", ()), "float8_e5m2", "float16"),
    Case(f"{DEQUANTIZE}:21", ("int4", (66, 4)), ("float16", (3, 4)), "int4", "float16",
         {"axis": 0, "block_size": 32}),
    Case(f"{DEQUANTIZE}:25", ("uint16", (3, 2)), ("float32", (2,)), "uint16"),
    Case("directml:QUANTIZE_LINEAR:2_1", ("int32", (1, 1, 2, 3)), ("float32", ()), "int8"),
    Case("directml:QUANTIZE_LINEAR:6_4", ("float16", (2, 3)), ("float16", (1, 3)), "uint8"),
    Case("directml:DEQUANTIZE_LINEAR:6_4", ("int16", (2, 3)), ("float32", (2, 1))),
    Case("webnn:quantizeLinear", ("float16", (6, 4)), ("float16", (2, 1)), "int8"),
    Case("webnn:dequantizeLinear", ("int32", (6, 4)), ("float32", (1, 4)), "int32"),
]  # fmt: skip
#: Scales of another type than the one by default, which the short form cannot have.
STATED = [
    Case(f"{QUANTIZE}:24", ("bfloat16", (8, 64)), ("float8_e8m0fnu", (8, 2)), None, "float8_e5m2",
         {"axis": 1, "block_size": 32}),
    Case(f"{QUANTIZE}:25", ("float16", (5, 4)), ("float32", (4,)), "uint8"),
    Case(f"{DEQUANTIZE}:24", ("float4_e2m1fn", (3, 64)), ("float8_e8m0fnu", (3, 2)), None,
         "bfloat16", {"axis": -1, "block_size": 32}),
]  # fmt: skip


UNPROXIED = pytest.mark.not_behind("nginx", reason="it takes HTTP/1.1 alone")


@pytest.mark.parametrize(
    "way",
    [
        pytest.param(way, id=name, marks=[UNPROXIED] * (name == "grpc"))
        for name, way in WAYS.items()
    ],
)
def test_results_are_the_references(
    service: Service, way: Callable[[Service, Case], Array]
) -> None:
    def check(case: Case) -> None:
        expected = case.expected
        found = way(service, case)
        if way in (in_json, in_short, inference_in_json):  # they have no NaN's bits
            kind = case.call.output.dtype.numpy
            is_nan = [np.isnan(each.view(kind).astype(float)) for each in (found, expected)]
            found = np.where(is_nan[0] & is_nan[1], expected, found)
        assert np.array_equal(found, expected)

    every(check, [*CALLS, *(STATED if way is not in_short else [])])


#: One document of each operator, and others whose tensors lie otherwise.
DOCUMENTS: dict[str, dict[str, Any]] = {
    **{
        key: row.descriptor.example for key, row in registry.OPERATORS.items() if row.kind.is_linear
    },
    "webnn blocks": {
        "dialect": "webnn",
        "op": "quantizeLinear",
        "input": {"dataType": "float16", "shape": [6, 4, 5]},
        "scale": {"dataType": "float16", "shape": [2, 2, 1]},
        "zeroPoint": {"dataType": "uint32", "shape": [2, 2, 1]},
    },
    "directml columns": {
        "dialect": "directml",
        "feature_level": "6_4",
        "type": "ELEMENT_WISE_DEQUANTIZE_LINEAR",
        "desc": {
            "InputTensor": {"DataType": "UINT32", "Sizes": [2, 3]},
            "ScaleTensor": {"DataType": "FLOAT16", "Sizes": [2, 3], "Strides": [1, 0]},
            "ZeroPointTensor": {"DataType": "UINT32", "Sizes": [2, 3], "Strides": [1, 0]},
            "OutputTensor": {"DataType": "FLOAT16", "Sizes": [2, 3]},
        },
    },
    "stablehlo limits": {
        "dialect": "stablehlo",
        "op": "uniform_quantize",
        "operand": "tensor<3x7xbf16>",
        "result": "tensor<3x7x!quant.uniform<i4<-7:7>:bf16:0, {0.1:-3, 25.0, 1e-3:7}>>",
    },
}


@pytest.mark.parametrize("document", DOCUMENTS.values(), ids=DOCUMENTS)
@pytest.mark.parametrize("place", ["service", "local"])
def test_documents_of_every_dialect(service: Service, place: str, document: Document) -> None:
    call = registry.validate(document).resolve()
    operands = operands_of(call, 3)
    with tr.Client("local:" if place == "local" else service.url) as client:
        found = client.execute(document, payload_of(call, operands))
    want, dtype = right(call, operands), call.output.dtype
    got = off_wire(bytes(found.data), dtype.name, want.size).view(dtype.bits)
    assert np.array_equal(got, want)


#: Larger than what overlaps with receiving, and than a client's tiles.
LARGE = Case(f"{QUANTIZE}:25", ("float32", (1_500_000, 3)), ("float32", (3,)), "int8")


@pytest.mark.parametrize(
    "way",
    [
        pytest.param(WAYS[name], id=name, marks=[UNPROXIED] * (name == "grpc"))
        for name in ("octets", "inference", "grpc", "client", "local")
    ],
)
def test_large_tensors(service: Service, way: Callable[[Service, Case], Array]) -> None:
    assert np.array_equal(way(service, LARGE), LARGE.expected)


#: Of the example, which has 24, 12 and 3 bytes.
DOCUMENT: Document = registry.OPERATORS[QUANTIZE].descriptor.example
LENGTHS = {
    0: "before input", 23: "within input", 24: "before y_scale", 35: "within y_scale",
    36: "before y_zero_point", 38: "within y_zero_point", 40: "after y_zero_point",
}  # fmt: skip


@pytest.mark.parametrize(("length", "where"), LENGTHS.items())
def test_a_payload_of_another_length_is_refused_by_the_tensor_that_it_ends_in(
    service: Service, length: int, where: str
) -> None:
    says = (
        f"must have 39 bytes for this descriptor, got {length}, which ends {where} (of input 24, "
    )
    answer = post(service, json.dumps(DOCUMENT), bytes(length))
    assert (answer.status, answer.json()["code"]) == (400, "payload_size_mismatch")
    assert says in answer.json()["detail"]
    for url in (service.url, "local:"):
        with tr.Client(url) as client, pytest.raises(tr.PayloadSizeMismatch) as caught:
            client.execute(DOCUMENT, bytes(length))
        assert says in str(caught.value)


FULL: Document = {
    "descriptor": DOCUMENT, "data": [0.5] * 6, "scale": [1, 2, 3], "zero_point": [0, 0, 0],
}  # fmt: skip
SHORT: Document = {
    "operator": QUANTIZE, "to": "int8", "dtype": "float32", "data": [[0.5, 1, 2], [3, 4, 5]],
    "scale": 0.5,
}  # fmt: skip
#: Changes of the members; where the first fault is, and what is said of it.
WRONG: dict[str, tuple[Document, Document, str, str]] = {
    "no scale": (FULL, {"scale": None}, "scale", "is required"),
    "no zero point": (FULL, {"zero_point": None}, "zero_point", "is required"),
    "few scales": (FULL, {"scale": [1, 2]}, "", "the scale has 2 elements, the shape [3] has 3"),
    "scalar": (FULL, {"zero_point": 1}, "zero_point", "must be an array of numbers"),
    "nested": (FULL, {"scale": [[1], [2], [3]]}, "scale", "must be an array of 1 entries"),
    "text": (FULL, {"scale": [1, "2", 3]}, "scale.1", "must be a number"),
    "range": (FULL, {"zero_point": [0, 128, 0]}, "zero_point.1", "from -128 to 127"),
    "no such": (
        FULL, {"descriptor": {**DOCUMENT, "y_zero_point": None}}, "zero_point", "no such tensor",
    ),
    "one tensor": (
        {"operator": "onnx", "dtype": "float32", "data": [1]}, {"zero_point": 1}, "zero_point",
        "no such tensor",
    ),
    "cast": (SHORT, {"operator": "onnx:Cast"}, "scale", "onnx: Cast takes no scale"),
    "short, no scale": (SHORT, {"scale": None}, "scale", "is required"),
    "unnamed": (SHORT, {"operator": "onnx"}, "operator", "one of onnx:QuantizeLinear, "),
    "count": (SHORT, {"scale": [1, 2]}, "scale.shape", "must be [3] for each index of axis 1"),
    "axis": (SHORT, {"scale": [1, 2, 3], "axis": 2}, "axis", "must be from -2 to 1"),
    "block": (SHORT, {"block_size": -1}, "block_size", "must be at least 0, got -1"),
    "points": (SHORT, {"zero_point": [0] * 3}, "zero_point.shape", "must have the shape of"),
    "infinite": (SHORT, {"zero_point": 1e999}, "zero_point", "must be an integer"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG.values(), ids=WRONG)
def test_wrong_members_of_json_are_named(service: Service, case: Any) -> None:
    body, changes, where, says = case
    fields = {"Content-Type": "application/json"}
    reply = service.request("POST", "/round", json.dumps({**body, **changes}).encode(), fields)
    problem = reply.json()
    assert reply.status == (422 if where else 400), problem
    if where:
        (fault,) = problem["errors"]
        assert (".".join(map(str, fault["loc"])), says in fault["msg"]) == (where, True), fault
    assert says in problem["detail"]


@pytest.mark.parametrize(
    ("operator", "says"),
    [
        (QUANTIZE, "application/json with scale and zero_point beside data, or"),
        ("directml:DEQUANTIZE_LINEAR", "application/json with scale and zero_point beside data"),
        ("stablehlo:uniform_quantize:!quant.uniform<i8:f32,0.1>", "send application/json, or"),
    ],
)
def test_a_npy_file_is_not_quantized(service: Service, operator: str, says: str) -> None:
    fields = {"Content-Type": "application/x-npy"}
    query = f"/round?{urlencode({'operator': operator, 'to': 'int8'})}"
    reply = service.request("POST", query, npy(np.zeros(3, np.float32)), fields)
    assert reply.status == 422
    (fault,) = reply.json()["errors"]
    assert (fault["loc"], says in fault["msg"]) == (["query", "operator"], True), fault


def test_quantization_has_no_directions_to_compare(service: Service) -> None:
    reply = service.request(
        "POST", "/compare", bytes(39), {"Operator-Descriptor": json.dumps(DOCUMENT)}
    )
    assert reply.status == 422
    assert "no directions to compare" in reply.json()["detail"]


_X = tensor("FP32", [2, 3], "x", data=[0.5] * 6)
_SCALE = tensor("FP32", [3], "y_scale", data=[1, 2, 3])
_POINT = tensor("INT8", [3], "y_zero_point", data=[0, 0, 0])
_BYTES = [binary("INT8", [3], 3, "y_zero_point"), _SCALE, binary("FP32", [2, 3], 24, "x")]
#: Inputs, what follows them, parameters, and what is said.
UNINFERRED: dict[str, tuple[list[Document], bytes | None, Document, str]] = {
    "missing": ([_X, _POINT], None, {}, "inputs: model onnx_quantize_linear needs y_scale"),
    "no operand": ([_SCALE, _POINT], None, {}, "onnx_quantize_linear needs x"),
    "twice": ([_X, _SCALE, _SCALE], None, {}, "inputs.2.name: y_scale is given twice"),
    "unknown": (
        [_X, _SCALE, {**_POINT, "name": "x_zero_point"}], None, {},
        'inputs.2.name: got "x_zero_point"; did you mean y_zero_point?',
    ),
    "type": ([_X, {**_SCALE, "datatype": "FP64"}], None, {}, "inputs.1.datatype: got FP64; model"),
    "count": (
        [_X, {**_SCALE, "data": [1, 2]}], None, {},
        "input y_scale",
    ),
    "shape": ([{**_SCALE, "shape": [2]}, _X], None, {}, "inputs.0: must be [3] for each index"),
    "axis": ([_X, _SCALE], None, {"axis": 2}, "parameters.axis: must be from -2 to 1"),
    "an axis that equals 1": (
        [_X, _SCALE], None, {"axis": True}, "parameters.axis: must be an integer, got true",
    ),
    "a block that equals 0": (
        [_X, _SCALE], None, {"block_size": 0.0}, "parameters.block_size: must be an integer, got 0",
    ),
    "vast sizes": (
        [_X, binary("FP32", [1 << 62] * 3, 12, "y_scale")], bytes(12), {},
        "inputs.1: must have no dimension, 1, or with block_size the 2 of input",
    ),
    "to": ([_X, _SCALE, _POINT], None, {"to": "int16"}, "inputs.2: must be output_dtype, INT16"),
    "their name": ([_X, _SCALE], None, {"output_dtype": "INT8"}, "onnx_quantize_linear has to, "),
    "size": (
        [_X, _SCALE, binary("INT8", [3], 4, "y_zero_point")], bytes(4), {},
        "input y_zero_point has 3 bytes by its shape and datatype, the request gives 4",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", [Caller, pytest.param(GrpcCaller, marks=UNPROXIED)])
@pytest.mark.parametrize("case", UNINFERRED.values(), ids=UNINFERRED)
def test_wrong_inputs_are_named(service: Service, kind: type[Caller], case: Any) -> None:
    inputs, payload, parameters, says = case
    request = {"inputs": inputs, "parameters": parameters}
    outcome = kind(service).infer(request, payload, "onnx_quantize_linear")
    assert (outcome.status, says in outcome.error) == (400, True), outcome.error


@pytest.mark.parametrize("count", [0, 2, 3, 26, 28])
def test_bytes_behind_a_head_are_refused_by_the_input_that_they_end_in(
    service: Service, count: int
) -> None:
    where = {0: "before y_zero_point", 2: "within y_zero_point", 3: "before x", 26: "within x"}
    reply = infer(service, {"inputs": _BYTES}, bytes(count), "onnx_quantize_linear")
    assert f"got {count}, which ends {where.get(count, 'after x')} " in Outcome.of(reply).error
