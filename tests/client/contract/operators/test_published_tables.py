"""What ``/operators`` says of each dialect, against what validation and specifications accept."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from support.cases.descriptors import CASES
from tensor_round.contract.dtypes import BY_NAME
from tensor_round.contract.errors import InvalidDescriptor
from tensor_round.contract.operators.dialect import Version
from tensor_round.contract.operators.dialects import directml, onnx, openvino, stablehlo
from tensor_round.contract.operators.operator import RoundOperator
from tensor_round.contract.operators.registry import DIALECTS, catalog

# onnx/onnx.proto, TensorProto.DataType
ONNX = {
    "FLOAT": 1, "UINT8": 2, "INT8": 3, "UINT16": 4, "INT16": 5, "INT32": 6, "INT64": 7,
    "FLOAT16": 10, "DOUBLE": 11, "UINT32": 12, "UINT64": 13, "BFLOAT16": 16,
    "FLOAT8E4M3FN": 17, "FLOAT8E4M3FNUZ": 18, "FLOAT8E5M2": 19, "FLOAT8E5M2FNUZ": 20,
    "UINT4": 21, "INT4": 22, "FLOAT4E2M1": 23, "FLOAT8E8M0": 24,
}  # fmt: skip
# DirectML.h, DML_TENSOR_DATA_TYPE
DIRECTML = {
    "FLOAT32": 1, "FLOAT16": 2, "UINT32": 3, "UINT16": 4, "UINT8": 5, "INT32": 6, "INT16": 7,
    "INT8": 8, "FLOAT64": 9, "UINT64": 10, "INT64": 11,
}  # fmt: skip


def test_the_names_of_types_have_their_numbers() -> None:
    assert {name: onnx.NUMBERS[dtype] for name, dtype in onnx.DTYPES.items()} == ONNX
    assert onnx.NUMBERS.keys() == BY_NAME.keys()
    assert directml.DTYPE_VALUES == DIRECTML
    assert directml.DTYPES.keys() == DIRECTML.keys()


def test_no_name_stands_for_two_types() -> None:
    own = (onnx.DTYPES, openvino.DTYPES, directml.DTYPES, stablehlo.DTYPES)
    for table in (*own, *(dialect.dtypes for dialect in DIALECTS.values())):
        assert len(set(table.values())) == len(table)
        assert set(table.values()) <= BY_NAME.keys()


each_version = pytest.mark.parametrize(
    ("dialect", "version"),
    [
        pytest.param(name, version, id=f"{name} {version.name}")
        for name, dialect in DIALECTS.items()
        for version in dialect.versions
    ],
)


def published(dialect: str, version: Version) -> dict[str, Any]:
    (found,) = (v for v in catalog()[dialect]["versions"] if v["name"] == version.name)
    return found


def operator(dialect: str, version: Version) -> RoundOperator:
    make: Any = DIALECTS[dialect].object
    return make(**version.attributes)


def accepts(operator: RoundOperator, dtype: Any, rank: int) -> bool:
    try:
        call = operator.descriptor(dtype, (1,) * rank).resolve()
    except InvalidDescriptor:
        return False
    assert (call.input.dtype.name, len(call.input.shape)) == (dtype, rank)
    return True


def canonical(dialect: str, names: Iterable[str]) -> set[str]:
    return {catalog()[dialect]["dtypes"][name] for name in names}


@each_version
def test_the_published_ranks_are_those_that_are_accepted(dialect: str, version: Version) -> None:
    """Also of one below and above: the ranks that are tried go beyond the longest."""
    told, made = published(dialect, version), operator(dialect, version)
    beyond = max(v["max_rank"] for one in catalog().values() for v in one["versions"]) + 2
    (dtype, *_) = canonical(dialect, told["dtypes"])
    accepted = [rank for rank in range(beyond) if accepts(made, dtype, rank)]
    assert accepted == list(range(told["min_rank"], told["max_rank"] + 1))
    _, ranks = CASES[dialect].model.versions[told["model_version"]]
    assert f"{told['min_rank']}-{told['max_rank']}" == ranks


@each_version
def test_the_published_dtypes_are_those_that_are_accepted(dialect: str, version: Version) -> None:
    told, made = published(dialect, version), operator(dialect, version)
    for rank in {told["min_rank"], told["max_rank"]}:
        accepted = {dtype for dtype in BY_NAME if accepts(made, dtype, rank)}
        assert accepted == canonical(dialect, told["dtypes"])
        for dtype in BY_NAME.keys() - accepted:
            with pytest.raises(InvalidDescriptor, match="takes"):
                made.prepare(dtype, (1,) * rank)


def test_each_dialect_has_its_form_as_a_word() -> None:
    assert {name: dialect.word for name, dialect in DIALECTS.items()} == {
        "ieee754": "{mode}",
        "onnx": "onnx:{version}",
        "openvino": "openvino:{mode}",
        "directml": "directml:{mode}:{version}",
        "webnn": "webnn",
        "stablehlo": "stablehlo:{mode}",
        "array_api": "array_api:{mode}",
        "mlir": "mlir:{mode}",
    }


def test_a_flat_tensor_has_a_shape_that_every_version_takes() -> None:
    for name, dialect in DIALECTS.items():
        expected = (1, 1, 1, 7) if name == "directml" else (7,)
        for version in dialect.versions:
            assert operator(name, version).flat_shape(7) == expected
            assert operator(name, version).prepare("float32", expected).call.input.shape == expected
