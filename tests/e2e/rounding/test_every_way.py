"""What every way to have a tensor rounded or cast obeys: one table of cases a rule."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterable
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
    patterns,
)
from support.cases.backend_calls import expected, results_of
from support.cases.descriptors import (
    DOCUMENTS,
    STRIDED,
    UNARY,
    call_of,
    ieee754,
    payload_of,
    varied,
)
from support.cases.dialect import Document
from support.cases.every import every
from support.clients import AnyClient, SteppedClient
from support.command_line import run
from support.http.native_form import post
from support.services.server import Service
from support.ways import BITS, WAYS, Asked, Refused, Way, command_line, npy
from tensor_round.contract.dtypes import BY_NAME
from tensor_round.contract.host_memory import elements
from tensor_round.contract.operators.registry import operator_from_text
from tensor_round_verify.conversions.patterns import cast_operands
from tensor_round_verify.reference import ROUNDINGS, WIDTHS, all_patterns


def over(ways: dict[str, Any]) -> pytest.MarkDecorator:
    """Run a test over these ways."""
    unproxied = pytest.mark.not_behind("nginx", reason="it takes HTTP/1.1 alone")
    params = [
        pytest.param(way, id=name, marks=[unproxied] * (name == "grpc"))
        for name, way in ways.items()
    ]
    return pytest.mark.parametrize("way", params)


def some(way: Way, cases: Iterable[Any]) -> list[Any]:
    """Of the command line, which needs a process for each case, every third."""
    return [*cases][2::3] if way is command_line else [*cases]


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

    every(check, some(way, WIDTHS))


@over(BITS)
def test_every_direction_is_exact(service: Service, way: Way) -> None:
    def check(rounding: str, dtype: str) -> None:
        x = patterns(dtype, 4097)
        y = way(service, Asked(rounding, x))
        assert np.array_equal(bits(y), expected_bits(x, rounding))

    every(check, ROUNDINGS, ("float16", "float64"))


#: Numbers that a specification gives for an operator on a dtype.
EXAMPLES = [
    (":".join(filter(None, (cases.word, example.mode, example.version))), example, dtype)
    for cases in UNARY.values()
    for example in cases.examples.values()
    for dtype in example.dtypes
]


@over(WAYS)
def test_examples_of_the_specifications_are_right(service: Service, way: Way) -> None:
    def check(case: Any) -> None:
        word, example, dtype = case
        source, result = example.arrays(dtype)
        for shape in example.shapes or (source.shape,):
            x = source.reshape(shape)
            y = way(service, Asked(word, x, to=example.to, saturate=example.saturate))
            assert same(way, y, result.reshape(shape))

    # A process a case: one of each dialect, and of its casts, is enough.
    few = {(case[0].partition(":")[0], case[1].to is None): case for case in EXAMPLES}.values()
    every(check, few if way is command_line else EXAMPLES)


def same(way: Way, got: Array, expected: Array) -> bool:
    """Whether they are equal in each bit, but for the NaNs of ways without bits."""
    is_nan = np.zeros(got.shape, bool)
    if way not in BITS.values() and BY_NAME[dtype_name(got)].is_float:
        is_nan = np.isnan(got.astype(float)) & np.isnan(expected.astype(float))
    return np.array_equal(bits(got)[~is_nan], bits(expected)[~is_nan])


def test_every_mode_of_every_operator_has_an_example() -> None:
    """IEEE 754 gives no numbers."""
    for key, cases in UNARY.items():
        modes = {example.mode for example in cases.examples.values()} - {""}
        is_ieee754 = key.startswith("ieee754")
        assert modes == (set() if is_ieee754 else cases.modes.keys())
        assert bool(cases.examples) != is_ieee754


#: Words, targets and attributes of casts: each dialect's, and IEEE 754's in every direction.
CASTS: list[tuple[str, str, str, bool | None]] = [
    *((rounding, "float32", "float8_e4m3fn", None) for rounding in ROUNDINGS),
    *((rounding, "float16", "float8_e8m0fnu", True) for rounding in ROUNDINGS),
    *((rounding, "float64", "int8", None) for rounding in ROUNDINGS),
    ("ties_to_even", "int64", "uint8", True),
    ("toward_zero", "uint64", "bfloat16", None),
    ("ties_to_away", "float32", "float4_e2m1fn", None),
    ("onnx:Cast:9", "float64", "float16", None),
    ("onnx:Cast:13", "bfloat16", "int64", None),
    ("onnx:Cast:19", "float32", "float8_e5m2fnuz", False),
    ("onnx:Cast:21", "float16", "int4", None),
    ("onnx:Cast:23", "float32", "float4_e2m1fn", None),
    ("onnx:Cast:24", "float32", "float8_e8m0fnu", None),
    ("onnx:Cast:25", "float8_e4m3fnuz", "float8_e4m3fn", None),
    ("openvino:Convert", "float64", "float16", None),
    ("openvino:Convert", "uint4", "float32", None),
    ("directml:CAST:4_1", "float64", "uint16", None),
    ("directml:CAST:6_4", "int32", "float16", None),
    ("webnn:cast", "float32", "int64", None),
    ("stablehlo:convert", "float64", "bfloat16", None),
    ("stablehlo:convert", "float32", "float32", None),
    ("array_api:astype", "int64", "float32", None),
    ("mlir", "float8_e8m0fnu", "float64", None),
    ("mlir", "float32", "uint32", None),
]


@over(BITS)
def test_casts_are_exact(service: Service, way: Way) -> None:
    """Hard patterns, also of types with two elements a byte, an odd number of them."""

    def check(case: Any) -> None:
        word, source, to, saturate = case
        hard = cast_operands(source, to)
        few = hard[:: max(1, hard.size // 20_000)]
        x = few[: few.size // 6 * 6 - 3].reshape(3, 1, -1).view(BY_NAME[source].numpy)
        y = way(service, Asked(word, x, to=to, saturate=saturate))
        operator = operator_from_text(word, to=to, saturate=saturate)
        function = operator.prepare(source, x.shape).call.function
        assert np.array_equal(bits(y), results_of(function, bits(x), source, to))

    every(check, some(way, CASTS))


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
        "(BFLOAT16 needs opset 22|got BF16; .*11).* takes (FLOAT16, FLOAT, |FP16, FP32, FP64)",
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


@pytest.mark.parametrize(
    ("way", "document"),
    [
        pytest.param(way, document, id=f"{name}-{key}")
        for name, way in EXECUTIONS.items()
        # A process a document: it only carries the bytes, so every fourth is enough.
        for key, document in [*DOCUMENTS.items()][:: 4 if way is executed_by_command else 1]
    ],
)
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
