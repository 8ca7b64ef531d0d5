"""Whatever JSON comes: a call or a refusal, always the same one, and soon."""

from __future__ import annotations

import contextlib
import json
import time
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from support.cases.descriptors import CASES, paths, varied
from tensor_round.contract.call import Call
from tensor_round.contract.errors import InvalidDescriptor, MalformedJSON, RequestRefused, problem
from tensor_round.contract.functions import Convert, Linear
from tensor_round.contract.operators.registry import parse, validate

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([2**31, 2**32, 2**63 - 1, 2**63, 2**64, 10**100, -1, 0, 1, 99, 0x3000])
    | st.floats()
    | st.text(max_size=60)
    | st.sampled_from(
        [
            "onnx",
            "ties_to_even",
            "FLOAT32",
            "f32",
            "2_1",
            "Round",
            "TOWARD_ZERO",
            "opset5",
            "Cast",
            "int8",
            "i8",
        ]
    )
)
FIELDS = st.text(max_size=8) | st.sampled_from(
    ["dialect", "input", "output", "shape", "strides", "Sizes", "Desc", "Type", "desc", "|flat"]
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=40) | st.dictionaries(FIELDS, inner, max_size=6),
    max_leaves=30,
)


@st.composite
def mutants(draw: st.DrawFn) -> Any:
    """An example with one or two of its fields replaced by anything."""
    operator = draw(st.sampled_from(sorted(CASES)))
    document = varied(operator, {})
    fields = [*paths(document), *CASES[operator].optional, "unknown"]
    for path in draw(st.lists(st.sampled_from(fields), min_size=1, max_size=2)):
        *parents, field = path.split(".")
        place: Any = document
        for parent in parents:
            place = place.get(parent) if isinstance(place, dict) else None
        if isinstance(place, dict):
            place[field] = draw(VALUES)
    return document


def outcome(data: bytes) -> Call | RequestRefused:
    """The call or the refusal that bytes come to, within 20 ms of processor time."""
    start = time.thread_time()
    result: Call | RequestRefused
    try:
        result = parse(data).resolve()
    except (InvalidDescriptor, MalformedJSON) as refusal:
        result = refusal
    assert time.thread_time() - start < 0.2
    return result


def told(outcome: Call | RequestRefused) -> Call | str:
    """What can be compared, and is fit to be sent."""
    if isinstance(outcome, Call):
        return outcome
    text = json.dumps(problem(outcome), ensure_ascii=False)
    text.encode("utf-8")
    assert 0 < len(outcome.detail) < 10_000
    return text


@given(VALUES | mutants())
def test_any_json_is_a_call_or_a_refusal_and_always_the_same(document: Any) -> None:
    data = json.dumps(document).encode()

    first = outcome(data)

    assert told(outcome(data)) == told(first)
    if isinstance(first, Call):
        assert parse(data).resolve() == first
        converts = isinstance(first.function, Convert | Linear)
        assert converts or first.input.dtype is first.output.dtype
        assert first.input.shape == first.output.shape
        assert first.output.is_free_of_overlap
        assert first.shortest_input <= first.input.byte_length


@given(st.binary(max_size=200))
def test_any_bytes_are_refused_as_json_or_as_descriptor(data: bytes) -> None:
    assert not isinstance(outcome(data), Call)


@given(VALUES)
def test_any_python_value_is_read_or_refused(document: Any) -> None:
    with contextlib.suppress(InvalidDescriptor):
        validate(document)
