"""What ``/operators`` says of each operator, against what validation and specifications accept."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterable
from itertools import product
from typing import Any

import pytest

from support.cases.descriptors import CASES
from support.cases.dialects.onnx import CAST_TYPES
from support.cases.every import grouped
from tensor_round.contract.dtypes import BY_NAME
from tensor_round.contract.errors import InvalidDescriptor
from tensor_round.contract.operators import directml_tensors, onnx_types
from tensor_round.contract.operators.dialect import Version
from tensor_round.contract.operators.dialects import directml, openvino, stablehlo
from tensor_round.contract.operators.model import OperatorDescriptor
from tensor_round.contract.operators.operator import Kind, RoundOperator
from tensor_round.contract.operators.registry import OPERATORS, catalog, validate

# DirectML.h, DML_TENSOR_DATA_TYPE
DIRECTML = {
    "FLOAT32": 1, "FLOAT16": 2, "UINT32": 3, "UINT16": 4, "UINT8": 5, "INT32": 6, "INT16": 7,
    "INT8": 8, "FLOAT64": 9, "UINT64": 10, "INT64": 11,
}  # fmt: skip


def test_the_names_of_types_have_their_numbers() -> None:
    assert {name: onnx_types.NUMBERS[dtype] for name, dtype in onnx_types.DTYPES.items()} == {
        name: number for name, number, _, _ in CAST_TYPES
    }
    assert onnx_types.NUMBERS.keys() == BY_NAME.keys()
    assert directml_tensors.DTYPE_VALUES == DIRECTML
    assert directml.DTYPES.keys() == DIRECTML.keys()


def test_no_name_stands_for_two_types() -> None:
    own = (onnx_types.DTYPES, openvino.DTYPES, directml.DTYPES, stablehlo.DTYPES)
    for table in (*own, *(operator.dtypes for operator in OPERATORS.values())):
        assert len(set(table.values())) == len(table)
        assert set(table.values()) <= BY_NAME.keys()


each_version = grouped(
    {key: [(key, version) for version in row.versions] for key, row in OPERATORS.items()}
)
#: Types to which any type is cast by each version of some dialect.
WIDE = ("float32", "float16", "float64")


def described(key: str) -> dict[str, Any]:
    """What the catalog says of an operator."""
    row = OPERATORS[key]
    operators = catalog()[row.dialect]["operators"]
    (found,) = (one for one in operators if one["operator"] == row.name)
    return dict(found)


def published(key: str, version: Version) -> dict[str, Any]:
    (found,) = (v for v in described(key)["versions"] if v["name"] == version.name)
    return dict(found)


def operator(key: str, version: Version, to: str = "float32") -> RoundOperator:
    """The operator of a version, to a type if it is a cast, by the example's attributes if any."""
    row, example = OPERATORS[key], CASES[key].operator[0]
    others = {name: getattr(example, name) for name in row.object.required()}
    target = {"to": to} if row.kind is Kind.CAST else {}
    return row.object(**{**others, **target, **version.attributes})


def described_by(key: str, version: Version, dtype: Any, rank: int, to: str) -> OperatorDescriptor:
    """The descriptor of a version on a tensor; a quantization has one scale, of a usual type."""
    made: Any = maker(key, version, dtype, to)
    found: OperatorDescriptor = made.descriptor(
        dtype, (1,) * rank, *parameters(key, version, dtype)
    )
    return found


def maker(key: str, version: Version, dtype: str, to: str) -> RoundOperator:
    taking = CASES[key].taking
    return operator(key, version, to) if taking is None else taking(dtype)


def parameters(key: str, version: Version, dtype: Any) -> list[tuple[str, tuple[int, ...]]]:
    """A scale and a zero point for an operand of a dtype, if the operator has such tensors."""
    row = OPERATORS[key]
    if len(row.tensors) == 1:
        return []
    if row.kind is Kind.DEQUANTIZE:
        return [("float32", ()), (dtype, ())]
    (scale,) = {dtype} & canonical(key, version.scales) or {"float32"}
    return [(scale, ()), ("uint8", ())]


def accepts(key: str, version: Version, dtype: Any, rank: int, to: str) -> bool:
    try:
        call = described_by(key, version, dtype, rank, to).resolve()
    except InvalidDescriptor:
        return False
    assert (call.input.dtype.name, len(call.input.shape)) == (dtype, rank)
    if not OPERATORS[key].kind.is_linear:
        assert call.output.dtype.name == (to if OPERATORS[key].kind is Kind.CAST else dtype)
    return True


def accepted_dtypes(key: str, version: Version, rank: int) -> set[str]:
    """The operands that a version accepts; of a cast, to one type or another."""
    return {
        dtype for dtype in BY_NAME if any(accepts(key, version, dtype, rank, to) for to in WIDE)
    }


def canonical(key: str, names: Iterable[str]) -> set[str]:
    told = described(key)
    tables = told["dtypes"], told["unsigned_dtypes"]
    return {table[name] for table in tables for name in names if name in table}


@each_version
def test_the_published_ranks_are_those_that_are_accepted(key: str, version: Version) -> None:
    """Also of one below and above: the ranks that are tried go beyond the longest."""
    told = published(key, version)
    beyond = max(v.max_rank for row in OPERATORS.values() for v in row.versions) + 2
    taken = canonical(key, told["dtypes"])
    usual = taken & {*WIDE} if len(taken & {*WIDE}) > 1 else {"float32", "uint8"} & taken
    source, target = min(usual), max(usual)
    accepted = [rank for rank in range(beyond) if accepts(key, version, source, rank, target)]
    assert accepted == list(range(told["min_rank"], told["max_rank"] + 1))
    _, ranks = CASES[key].model.versions[told["model_version"]]
    assert f"{told['min_rank']}-{told['max_rank']}" == ranks


@each_version
def test_the_published_dtypes_are_those_that_are_accepted(key: str, version: Version) -> None:
    told = published(key, version)
    for rank in {told["min_rank"], told["max_rank"]}:
        accepted = accepted_dtypes(key, version, rank)
        assert accepted == canonical(key, told["dtypes"])
        for dtype in BY_NAME.keys() - accepted:
            with pytest.raises(InvalidDescriptor, match="takes"):
                described_by(key, version, dtype, rank, "float32").resolve()


@each_version
def test_each_published_name_of_a_type_stands_in_descriptors(key: str, version: Version) -> None:
    """In that of a tensor of the dtype, and in one of a cast to it: all are accepted."""
    told, listed = described(key), published(key, version)["dtypes"]
    rank = version.min_rank
    for meaning in (told["dtypes"], told["unsigned_dtypes"]):
        for name in meaning.keys() & {*listed}:
            dtype = meaning[name]
            own = [text for to in WIDE for text in written(key, version, dtype, rank, to)]
            made = [text for source in WIDE for text in written(key, version, source, rank, dtype)]
            for texts in (own, made) if OPERATORS[key].kind is Kind.CAST else (own,):
                assert any(re.search(rf'["<x]{name}[">:]', text) for text in texts), (name, dtype)


def written(key: str, version: Version, dtype: Any, rank: int, to: str) -> list[str]:
    """The descriptor of a version on a tensor, as JSON, if it is accepted."""
    with contextlib.suppress(InvalidDescriptor):
        descriptor = described_by(key, version, dtype, rank, to)
        assert validate(json.loads(descriptor.to_json())).resolve() == descriptor.resolve()
        return [descriptor.to_json().decode()]
    return []


@each_version
def test_a_cast_s_targets_are_the_published_dtypes(key: str, version: Version) -> None:
    told = published(key, version)
    rank = told["min_rank"]
    for to in BY_NAME if OPERATORS[key].kind is Kind.CAST else ():
        is_target = to in canonical(key, told["dtypes"])
        assert is_target == any(taken(key, version, source, rank, to) for source in WIDE)


def taken(key: str, version: Version, source: str, rank: int, to: str) -> bool:
    """Whether a cast accepts a tensor, also if the operator cannot be made."""
    with contextlib.suppress(InvalidDescriptor):
        return accepts(key, version, source, rank, to)
    return False


def test_unspecified_results_are_listed() -> None:
    told = {key: described(key)["unspecified"] for key in OPERATORS}
    to_integers = {"float to integer, out of range": "saturate", "float to integer, NaN": "0"}
    for key, operator in OPERATORS.items():
        is_open = "saturate" if operator.kind is Kind.CAST else None
        assert described(key)["open"] == is_open
        if operator.kind is Kind.CAST:
            assert to_integers.items() <= told[key].items()
            has_no_nan = "float4_e2m1fn" in operator.dtypes.values()
            assert ("NaN to a float without it" in told[key]) == has_no_nan
        elif operator.rounds_to_integral:
            assert not told[key]
    assert told["stablehlo:convert"]["float to float, not representable"] == "ties_to_even"
    assert told["onnx:Cast"]["float to integer"] == "toward_zero"
    # Of FLOAT8E8M0, what ONNX's table leaves unspecified, or lacks.
    assert [case for case in told["onnx:Cast"] if "FLOAT8E8M0" in case] == [
        "negative number to FLOAT8E8M0",
        "-0 to FLOAT8E8M0",
        "above FLOAT8E8M0, not saturated",
        "below FLOAT8E8M0, not saturated",
    ]


def test_each_operator_has_its_form_as_a_word() -> None:
    assert {key: operator.word for key, operator in OPERATORS.items()} == {
        "ieee754": "{mode}",
        "ieee754:convertFormat": "{mode}",
        "onnx": "onnx:{version}",
        "onnx:Floor": "onnx:Floor:{version}",
        "onnx:Ceil": "onnx:Ceil:{version}",
        "onnx:Cast": "onnx:Cast:{version}",
        "onnx:QuantizeLinear": "onnx:QuantizeLinear:{version}",
        "onnx:DequantizeLinear": "onnx:DequantizeLinear:{version}",
        "openvino": "openvino:{mode}",
        "openvino:Floor": "openvino:Floor",
        "openvino:Ceiling": "openvino:Ceiling",
        "openvino:Convert": "openvino:Convert",
        "directml": "directml:{mode}:{version}",
        "directml:ELEMENT_WISE_FLOOR": "directml:FLOOR:{version}",
        "directml:ELEMENT_WISE_CEIL": "directml:CEIL:{version}",
        "directml:CAST": "directml:CAST:{version}",
        "directml:ELEMENT_WISE_QUANTIZE_LINEAR": "directml:QUANTIZE_LINEAR:{version}",
        "directml:ELEMENT_WISE_DEQUANTIZE_LINEAR": "directml:DEQUANTIZE_LINEAR:{version}",
        "webnn": "webnn",
        "webnn:floor": "webnn:floor",
        "webnn:ceil": "webnn:ceil",
        "webnn:cast": "webnn:cast",
        "webnn:quantizeLinear": "webnn:quantizeLinear",
        "webnn:dequantizeLinear": "webnn:dequantizeLinear",
        "stablehlo": "stablehlo:{mode}",
        "stablehlo:convert": "stablehlo:convert",
        "stablehlo:reduce_precision": "stablehlo:reduce_precision:{exponent_bits}:{mantissa_bits}",
        "stablehlo:uniform_quantize": "stablehlo:uniform_quantize:{quantized_type}",
        "stablehlo:uniform_dequantize": "stablehlo:uniform_dequantize:{quantized_type}",
        "array_api": "array_api:{mode}",
        "array_api:astype": "array_api:astype",
        "mlir": "mlir:{mode}",
        "mlir:arith": "mlir:{op}",
    }


@each_version
def test_a_flat_tensor_has_a_shape_that_every_version_takes(key: str, version: Version) -> None:
    expected = (1, 1, 1, 7) if OPERATORS[key].dialect == "directml" else (7,)
    dtype = "uint8" if OPERATORS[key].kind is Kind.DEQUANTIZE else "float32"
    made: Any = maker(key, version, dtype, "float64" if key == "mlir:arith" else "float32")
    assert made.flat_shape(7) == expected
    prepared = made.prepare(dtype, expected, *parameters(key, version, dtype))
    assert prepared.call.input.shape == expected


@pytest.mark.parametrize("key", [key for key, row in OPERATORS.items() if len(row.tensors) > 1])
def test_the_published_scales_and_results_are_those_that_are_accepted(key: str) -> None:
    row = OPERATORS[key]
    is_quantize = row.kind is Kind.QUANTIZE
    for version in row.versions:
        told = published(key, version)
        made: Any = operator(key, version)
        scales, results = set(), set()
        for dtype, other in product(BY_NAME, ("float32", "float16", "bfloat16", "int32", "uint8")):
            with contextlib.suppress(InvalidDescriptor):
                call = made.descriptor(other, (1,) * 4, (dtype, ())).resolve()
                scales.add(dtype)
                results.add(call.output.dtype.name)
            with contextlib.suppress(InvalidDescriptor):
                to: Any = row.object(**{**version.attributes, "to": dtype})
                parameters = (other, ()), (dtype if is_quantize else "uint8", ())
                source = other if is_quantize else "uint8"
                call = to.descriptor(source, (1,) * 4, *parameters).resolve()
                scales.add(other)
                results.add(call.output.dtype.name)
                assert call.output.dtype.name == dtype
        if (
            key.startswith("onnx")
            and not is_quantize
            and "float8_e8m0fnu" in canonical(key, told["scales"])
        ):
            scales.add("float8_e8m0fnu")  # needs output_dtype
        assert (scales, results) == (
            canonical(key, told["scales"]),
            canonical(key, told["results"]),
        )
