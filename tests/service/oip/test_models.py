"""The models: their names, and that what their configuration tells is what they take."""

from __future__ import annotations

from typing import Any

import pytest

from support.cases.descriptors import CASES
from tensor_round.contract.dtypes import BY_OIP
from tensor_round.contract.errors import InvalidDescriptor, NotFound
from tensor_round.contract.rounding import Rounding
from tensor_round_service.oip import codec
from tensor_round_service.oip.models import MODELS, Model, config_of, find
from tensor_round_service.oip.plan import plan

each_model = pytest.mark.parametrize("model", MODELS, ids=lambda m: f"{m.name}-{m.version}")


def ask(model: Model, datatype: str, rank: int, **parameters: Any) -> Rounding:
    """The direction in which a model would round such a tensor."""
    name, _, carried = datatype.partition(":")
    own: dict[str, Any] = {"dtype": carried} if carried else {}
    source = codec.Inline(b"0" if rank == 0 else [b"0"])
    tensor = codec.Input(model.input, name, (1,) * rank, own, source)
    return plan(model, codec.Request(None, parameters, (tensor,), (), False)).call.rounding


def told(model: Model, name: str) -> str:
    value = config_of(model)["parameters"][name]["string_value"]
    assert isinstance(value, str)
    return value


DATATYPES = [*BY_OIP, "UINT8:float8_e4m3fn", "UINT8:float8_e5m2", "BOOL", "BYTES"]


@each_model
def test_datatypes(model: Model) -> None:
    taken = []
    for datatype in DATATYPES:
        try:
            ask(model, datatype, 4)
        except InvalidDescriptor:
            continue
        taken.append(datatype)
    assert set(taken) == set(told(model, "datatypes").split(","))


@each_model
def test_ranks(model: Model) -> None:
    least, most = map(int, told(model, "ranks").split("-"))
    for rank in range(35):
        if least <= rank <= most:
            ask(model, "FP32", rank)
        else:
            with pytest.raises(InvalidDescriptor):
                ask(model, "FP32", rank)


@each_model
def test_modes(model: Model) -> None:
    if model.mode_parameter is None:
        assert ask(model, "FP32", 4) is Rounding.TIES_TO_EVEN
        # Unknown parameters are ignored, whatever their names.
        assert ask(model, "FP32", 4, **{"None": 1}) is Rounding.TIES_TO_EVEN
        return
    modes = told(model, model.mode_parameter).split(",")
    found = [ask(model, "FP32", 4, **{model.mode_parameter: mode}) for mode in modes]
    assert found == list(model.dialect.modes.values())
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
