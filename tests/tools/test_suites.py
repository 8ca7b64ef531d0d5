"""The scores of published suites: true, closed by operands, and on a page that is current."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

import tensor_round as tr
from suites.page import of_rounding
from suites.published import SUITES, Suite, numbers
from suites.score import Score, answers_of
from suites.score import score as judged
from tensor_round.contract.dtypes import BY_NAME

PAGE = Path(__file__).parents[2] / "docs" / "runtimes.md"
SCORED = {(str(suite), dtype): suite for suite in SUITES for dtype in suite.specified}


@cache
def score(suite: str, dtype: str) -> Score:
    """Of the suite of that name; not by every worker, to collect."""
    return judged(SCORED[suite, dtype], dtype)


def scores() -> list[Score]:
    return [score(*of) for of in SCORED]


def test_the_page_is_current() -> None:
    # Of casts and quantization make test-oracles: that takes seconds.
    assert of_rounding(scores()) in PAGE.read_text(), "run make docs"


@pytest.mark.parametrize("of", SCORED, ids=", ".join)
def test_the_operands_find_every_rule_that_passes(of: tuple[str, str]) -> None:
    found = score(*of)
    answers = answers_of(found.dtype, found.suite.rounding)
    places = [int(np.flatnonzero(answers.bits == bits)[0]) for bits in found.closing]
    for rule in found.rules:
        got, want = answers.got[rule][places], answers.want[places]
        assert rule not in found.passed or (got != want).any()
        if rule in found.passed and rule not in found.unseen:
            triple = (numbers(bits, found.dtype) for bits in (found.closing, got, want))
            assert not found.suite.agrees(found.dtype, *triple).all()
    assert found.has_cases or found.passed == found.rules


@pytest.mark.parametrize("suite", SUITES, ids=str)
def test_the_product_passes(suite: Suite) -> None:
    operator = tr.IEEE754Round(suite.rounding)
    with tr.Client("local:") as client:
        for dtype in suite.specified:
            bits, own = suite.bits(dtype), BY_NAME[dtype].numpy
            got = np.asarray(client.round(bits.view(own), operator)).view(bits.dtype)
            right = suite.right(dtype, bits)
            assert got.tolist() == right.tolist()
            triple = (numbers(each, dtype) for each in (bits, got, right))
            assert suite.agrees(dtype, *triple).all()
