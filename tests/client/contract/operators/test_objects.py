"""Operators as objects: values, and the arguments that stand for them."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from typing import Any

import pytest

import tensor_round as tr
from tensor_round.contract.operators.operator import as_operator


def test_operators_are_values() -> None:
    a, b = tr.OpenVINORound("half_away_from_zero"), tr.OpenVINORound(mode="half_away_from_zero")
    assert a == b
    assert hash(a) == hash(b)
    assert a != tr.OpenVINORound()
    assert repr(a) == "OpenVINORound(mode='half_away_from_zero')"
    with pytest.raises(FrozenInstanceError):
        a.mode = "half_to_even"  # type: ignore[misc]


def test_a_string_or_a_rounding_is_an_ieee754_operator() -> None:
    for rounding in tr.Rounding:
        assert as_operator(rounding) == as_operator(rounding.value) == tr.IEEE754Round(rounding)


def test_the_direction_may_be_given_by_its_own_name() -> None:
    assert as_operator(None) == as_operator("ties_to_even") == tr.IEEE754Round()
    assert as_operator(None, "toward_zero") == tr.IEEE754Round("toward_zero")
    with pytest.raises(tr.InvalidArgument, match="one of the two"):
        as_operator("toward_zero", "toward_zero")


def test_decimals_are_refused_by_either_name() -> None:
    given: Any = as_operator
    assert given(None, decimals=0) == as_operator(None)
    told = "rounding is to integers only, so scale first"
    with pytest.raises(tr.InvalidArgument, match=f"decimals must be 0: {told}"):
        given(None, decimals=2)
    with pytest.raises(tr.InvalidDescriptor, match=f"direction, got 2: {told}") as caught:
        given(2)
    assert caught.value.faults[0].loc == ("rounding",)


def test_an_operator_is_itself() -> None:
    for operator in (tr.OnnxRound(13), tr.DirectMLRound("TOWARD_ZERO")):
        assert as_operator(operator) is operator


def test_a_dtype_that_nobody_has_is_quoted() -> None:
    make: Any = tr.OnnxRound().descriptor
    with pytest.raises(tr.InvalidDescriptor, match='got "float33"; did you mean FLOAT'):
        make("float33", (2,))
