"""What ``/operators`` says of each version of each dialect, against what validation accepts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from support.cases.descriptors import CASES
from tensor_round.contract.dtypes import BY_NAME
from tensor_round.contract.errors import InvalidDescriptor
from tensor_round.contract.operators.dialect import Version
from tensor_round.contract.operators.operator import RoundOperator
from tensor_round.contract.operators.registry import DIALECTS, catalog

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


@each_version
def test_the_published_ranks_are_the_specification_s(dialect: str, version: Version) -> None:
    told = published(dialect, version)
    _, ranks = CASES[dialect].model.versions[version.model_version]
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


@each_version
def test_a_version_has_a_fault_for_each_other_dtype(dialect: str, version: Version) -> None:
    names = DIALECTS[dialect].dtypes
    refused = {name: version.dtype_faults(name, ("x",)) for name in (*names, "none")}
    assert all(refused[name] == [] for name in version.dtypes)
    for name in refused.keys() - {*version.dtypes}:
        (fault,) = refused[name]
        takes = ", ".join(version.dtypes)
        assert (fault.loc, fault.msg) == (("x",), f"got {name}; {version.title} takes {takes}")


@each_version
def test_a_version_is_published_as_its_table_has_it(dialect: str, version: Version) -> None:
    assert published(dialect, version) == {
        "name": version.name,
        "model_version": version.model_version,
        "selected_by": list(version.selected_by),
        "dtypes": list(version.dtypes),
        "min_rank": version.min_rank,
        "max_rank": version.max_rank,
    }


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
