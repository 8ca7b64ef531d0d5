"""Operators in DxDispatch's JSON: its forms, its leniencies, its models, and their limits."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensor_round as tr
from support.memory import traced
from tensor_round.contract.operators.importers import dxdispatch
from tensor_round.contract.operators.registry import OPERATORS, validate

TENSORS = {
    "InputTensor": {
        "DataType": "FLOAT16",
        "Sizes": [2, 3],
        "Strides": [1, 2],
        "TotalTensorSizeInBytes": 20,
        "GuaranteedBaseOffsetAlignment": 16,
        "Flags": "DML_TENSOR_FLAG_OWNED_BY_DML",
    },
    "OutputTensor": {
        "Type": "BUFFER",
        "Desc": {"DataType": 2, "Sizes": [2, 3], "Strides": [4, 1], "DimensionCount": 2},
    },
}
OPERATOR: dict[str, Any] = {
    "type": "DML_OPERATOR_ELEMENT_WISE_ROUND",
    "desc": {**TENSORS, "RoundingMode": "DML_ROUNDING_MODE_TOWARD_ZERO"},
}
AWAY = {**OPERATOR, "desc": {**OPERATOR["desc"], "RoundingMode": "TOWARD_INFINITY"}}
#: As DxDispatch's own models are: an operator among resources and commands.
MODEL = {
    "$schema": "./_schema.json",
    "resources": {
        "A": {"initialValuesDataType": "FLOAT32", "initialValues": [-1.5, 0.5, 1.5]},
    },
    "dispatchables": {
        "round": {**OPERATOR, "dmlCompileType": "DmlCompileGraph"},
        "clip": {"type": "DML_OPERATOR_ELEMENT_WISE_CLIP", "desc": {"Min": -2.5}},
    },
    "commands": [{"type": "dispatch", "dispatchable": "round", "bindings": {"InputTensor": "A"}}],
}
LENIENT = """
// As people write it.
{
  "dispatchables": {
    "round": { /* one, */
      "Type": "ELEMENT_WISE_ROUND", // ]}
      "Desc": DESC,
    },
  },
  "more": [1/**/, 2 /*,*/, ], // \u00fc
  "note": "no // comment, no /* comment */, and \\",] no last comma,}",
}
// the end
""".replace("DESC", json.dumps(OPERATOR["desc"]))
FORMS: dict[str, Any] = {
    **{"model": MODEL, "operator": OPERATOR, "lenient": LENIENT},
    **{"text": json.dumps(MODEL), "bytes": json.dumps(OPERATOR).encode()},
    "lenient bytes": LENIENT.encode(),
}


def test_both_tensors_are_kept_whole() -> None:
    descriptor = tr.from_dxdispatch(OPERATOR, feature_level=0x4000).descriptor()
    source, target = descriptor.desc.InputTensor, descriptor.desc.OutputTensor
    assert isinstance(source, tr.BufferTensorDesc)
    assert (source.Strides, source.TotalTensorSizeInBytes) == ((1, 2), 20)
    assert (source.GuaranteedBaseOffsetAlignment, source.Flags) == (16, "OWNED_BY_DML")
    assert target.buffer[0].Strides == (4, 1)
    assert (descriptor.feature_level, descriptor.desc.RoundingMode) == ("4_0", "TOWARD_ZERO")
    sent = json.loads(descriptor.to_json())
    assert sent["desc"]["InputTensor"] == {**TENSORS["InputTensor"], "Flags": "OWNED_BY_DML"}
    assert sent["desc"]["OutputTensor"]["Desc"]["Strides"] == [4, 1]


def test_imported_operator_rounds_any_tensor() -> None:
    operator = tr.from_dxdispatch(OPERATOR)
    assert repr(operator) == "DirectMLRound(rounding_mode='TOWARD_ZERO', feature_level='3_0')"
    descriptor = operator.descriptor(np.float32, (7,))
    assert descriptor == tr.DirectMLRound("TOWARD_ZERO").descriptor("float32", [7])
    with pytest.raises(tr.InvalidArgument, match="shape is needed"):
        operator.descriptor("float32")
    with pytest.raises(tr.InvalidArgument, match="dtype is needed"):
        tr.DirectMLRound().descriptor()


@pytest.mark.parametrize("document", FORMS.values(), ids=FORMS)
def test_operators_and_models_are_read_in_every_form(document: Any) -> None:
    read = tr.from_dxdispatch(document)
    assert read == tr.DirectMLRound("TOWARD_ZERO")
    assert read.descriptor() == tr.from_dxdispatch(OPERATOR).descriptor()
    later = tr.from_dxdispatch(document, feature_level="DML_FEATURE_LEVEL_6_0")
    assert later == tr.DirectMLRound("TOWARD_ZERO", feature_level="6_0")


@pytest.mark.parametrize("make", [Path, str])
def test_a_file_is_read(tmp_path: Path, make: Any) -> None:
    path = tmp_path / "model.json"
    path.write_text(LENIENT, encoding="utf-8")
    assert tr.from_dxdispatch(make(path)) == tr.DirectMLRound("TOWARD_ZERO")


@pytest.mark.parametrize("make", [dict, json.dumps])
def test_one_of_several_operators_is_chosen_by_name(make: Callable[[Any], Any]) -> None:
    two = make({"dispatchables": {"zero": OPERATOR, "away": AWAY, "abs": {"type": "ABS"}}})
    why = r"exactly one operator that rounds, got 2 \(zero, away\): choose by name="
    with pytest.raises(tr.InvalidDescriptor, match=why):
        tr.from_dxdispatch(two)
    assert tr.from_dxdispatch(two, name="away") == tr.DirectMLRound("TOWARD_INFINITY")
    with pytest.raises(tr.InvalidArgument, match="this is one operator alone"):
        tr.from_dxdispatch(make(OPERATOR), name="round")


_WIDER = {"InputTensor": TENSORS["InputTensor"], "OutputTensor": {
    "DataType": "FLOAT32", "Sizes": [2, 3]}}  # fmt: skip
OTHERS: dict[str, tuple[dict[str, Any], Any]] = {
    "FLOOR": ({"type": "ELEMENT_WISE_FLOOR", "desc": TENSORS}, tr.DirectMLFloor()),
    "CEIL": (
        {"type": "DML_OPERATOR_ELEMENT_WISE_CEIL", "desc": {**TENSORS, "ScaleBias": None}},
        tr.DirectMLCeil(),
    ),
    "CAST": ({"Type": "DML_OPERATOR_CAST", "Desc": _WIDER}, tr.DirectMLCast("float32", "4_1")),
}


@pytest.mark.parametrize(("document", "operator"), OTHERS.values(), ids=OTHERS)
def test_other_operators_that_round_are_read(
    document: dict[str, Any], operator: tr.RoundOperator
) -> None:
    model = {"dispatchables": {"other": document, "round": OPERATOR}}
    for read in (tr.from_dxdispatch(document), tr.from_dxdispatch(model, name="other")):
        assert read == operator
        source, target = read.descriptor().desc.InputTensor, read.descriptor().desc.OutputTensor
        assert source.buffer[0].Strides == (1, 2)
        assert target.buffer[0].Strides == (None if "CAST" in str(document) else (4, 1))
    assert tr.from_dxdispatch(model) == tr.DirectMLRound("TOWARD_ZERO")
    assert tr.from_dxdispatch(document, "5_0").feature_level == "5_0"


def desc(**changes: Any) -> dict[str, Any]:
    return {**OPERATOR, "desc": {**OPERATOR["desc"], **changes}}


_NOT_JSON = ["{", "{ /* ", '{"', '{"type": 99,,}', "[,]", "{,}", "[1,,2]", "{/*", "{} /"]
_NOT_JSON += ['{"a" // : 1}', "{'a': 1}", "{# a\n}", '{"a": [1/**/2]}', '{"a": [1// two\n2]}']
REFUSED: dict[str, tuple[Any, type[tr.TensorRoundError], str]] = {
    **{text: (text, tr.MalformedJSON, "not JSON") for text in _NOT_JSON},
    "empty": ("", tr.MalformedJSON, "not JSON"),
    "no path": ("a\0b", tr.InvalidArgument, "cannot be read"),
    "a folder": (Path("/"), tr.InvalidArgument, "cannot be read"),
    "Latin-1": (b'{"\xe9": 1}', tr.MalformedJSON, "not UTF-8 at byte 2"),
    "no object": ("[1]", tr.InvalidDescriptor, "must be a JSON object"),
    "no operator": ({"dispatchables": {}}, tr.InvalidDescriptor, "got 0"),
    "no desc": ({"type": OPERATOR["type"]}, tr.InvalidDescriptor, "desc: is required"),
    "another operator": (
        {**OPERATOR, "type": "DML_OPERATOR_ELEMENT_WISE_ABS"},
        tr.InvalidDescriptor,
        "ELEMENT_WISE_ROUND",
    ),
    "an output of other sizes": (
        desc(OutputTensor={"DataType": "FLOAT16", "Sizes": [4]}),
        tr.InvalidDescriptor,
        "OutputTensor.DimensionCount",
    ),
}


@pytest.mark.parametrize(("document", "kind", "why"), REFUSED.values(), ids=REFUSED)
def test_anything_else_is_refused(document: Any, kind: type[tr.TensorRoundError], why: str) -> None:
    with pytest.raises(kind, match=why):
        tr.from_dxdispatch(document)


@pytest.mark.parametrize("name", ["Type", "Desc"])
def test_a_member_in_both_spellings_is_refused(name: str) -> None:
    for more in ({}, OPERATOR):
        with pytest.raises(tr.InvalidDescriptor, match=f"there is a {name.lower()}, too") as caught:
            tr.from_dxdispatch({**more, name: 1, name.lower(): 1})
        assert caught.value.faults[0].loc == (name,)


ROUND = """{"type": "DML_OPERATOR_ELEMENT_WISE_ROUND", "desc": {
    "InputTensor": {"DataType": "FLOAT32", "Sizes": [3]},
    "OutputTensor": {"DataType": "FLOAT32", "Sizes": [3]}
}, "more": MORE}"""

#: The text for a number as another member, and the most that is accepted of it.
LIMITS: dict[str, tuple[Callable[[int], str], int, str]] = {
    "bytes": (
        lambda count: f'"{"x" * (count - len(ROUND) + 2)}"',
        1 << 24,
        "has more than 16777216 bytes",
    ),
    "nesting": (
        lambda count: "[" * (count - 1) + "]" * (count - 1),
        32,
        "nests deeper than 32",
    ),
    "arrays and objects": (
        # Six are ROUND's own, and one is around them.
        lambda count: f"[{','.join(['[]'] * (count - 7))}]",
        1 << 16,
        "more than 65536 arrays",
    ),
    "members": (
        # Nine are ROUND's own.
        lambda count: json.dumps(dict.fromkeys(range(count - 9))),
        1 << 16,
        "more than 65536 members",
    ),
}


@pytest.mark.parametrize(("make", "most", "why"), LIMITS.values(), ids=LIMITS)
def test_limits_are_inclusive(make: Callable[[int], str], most: int, why: str) -> None:
    assert tr.from_dxdispatch(ROUND.replace("MORE", make(most))) == tr.DirectMLRound()
    with pytest.raises(tr.MalformedJSON, match=why):
        tr.from_dxdispatch(ROUND.replace("MORE", make(most + 1)))
    assert dxdispatch.MAX_LENGTH == 16_777_216


#: Begin, part and end of texts of 1 MB, by what takes memory for each part of them.
LARGE = {
    "a-string": ('{"a": "', "x", '"}'),
    "escapes": ('{"a": "', '\\"', '"}'),
    "no-end": ('{"', "x", ""),
    "escapes-without-end": ('{"', '\\"', ""),
    "comments-without-end": ("{", "/*", ""),
    "every-other-string": ("{", '"a', ""),
    "strings": ("[", '"",', "]"),
    "comments": ("[", "1,/**/", "]"),
    "arrays": ("[", "[],", "]"),
    "objects": ("[", "{},", "]"),
}


@pytest.mark.parametrize(("begin", "part", "end"), LARGE.values(), ids=LARGE)
def test_a_large_text_takes_linear_time_and_little_memory(begin: str, part: str, end: str) -> None:
    """A few copies of the text, and nothing for each character."""
    text = begin + part * (1_000_000 // len(part)) + end
    with traced() as most:
        with pytest.raises(tr.TensorRoundError):
            tr.from_dxdispatch(text)
        assert most() < 8 << 20


@pytest.mark.parametrize("key", ["QUANTIZE_LINEAR", "DEQUANTIZE_LINEAR"])
def test_a_quantization_keeps_its_four_tensors(key: str) -> None:
    stated = OPERATORS[f"directml:ELEMENT_WISE_{key}"].descriptor.example
    read = tr.from_dxdispatch({"type": stated["type"], "desc": stated["desc"]})
    assert read.descriptor().resolve() == validate(stated).resolve()
    assert read.feature_level == "6_2"
