"""``tr.round``: no client to make, and no service where the engine is and none is named."""

from __future__ import annotations

import subprocess
import sys
from typing import get_args

import numpy as np
import pytest

import tensor_round as tr
from tensor_round.contract.operators.registry import DIALECTS, OPERATORS, WORDS, OperatorWord

X = np.array([-2.5, -0.3, 0.5, 1.5, 2.5], np.float32)
AWAY = [-3.0, -0.0, 1.0, 2.0, 3.0]


def test_it_rounds_in_this_process() -> None:
    assert tr.round(X).tolist() == [-2.0, -0.0, 0.0, 2.0, 2.0]
    assert tr.round(X, "directml:TOWARD_INFINITY").tolist() == AWAY
    out = X.copy()
    assert tr.round(X, rounding="ties_to_away", out=out) is out
    assert out.tolist() == AWAY


def test_python_s_numbers_come_back_as_they_were() -> None:
    assert repr(tr.round([-2.5, 0.5], "ties_to_away")) == "[-3.0, 1.0]"
    assert repr(tr.round(((1.5, -0.3),))) == "((2.0, -0.0),)"
    assert (tr.round(2.5), tr.round(7)) == (2.0, 7)


def test_the_environment_comes_before_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENSOR_ROUND_URL", "http://127.0.0.1:1")
    with pytest.raises(tr.ConnectionFailed, match=r"127\.0\.0\.1:1"):
        tr.cast(X, "int8")
    monkeypatch.setenv("TENSOR_ROUND_URL", "")
    assert tr.round(X).tolist() == [-2.0, -0.0, 0.0, 2.0, 2.0]


@pytest.mark.parametrize(
    ("url", "told"), [("http://127.0.0.1:1", "127.0.0.1:1"), ("", "127.0.0.1:8000")]
)
def test_without_the_engine_a_service_rounds(url: str, told: str) -> None:
    """In a process that finds no engine; nothing is sent to either address."""
    code = f"""
import importlib.util, os
importlib.util.find_spec = lambda name: None
os.environ["TENSOR_ROUND_URL"] = {url!r}
import tensor_round.clients.own as own
print(own._client(os.environ["TENSOR_ROUND_URL"], None))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert told in done.stdout, done.stderr


def test_the_literal_words_are_those_of_the_tables() -> None:
    # A dialect alone is its first operator, in the default mode.
    bare = {name for name in DIALECTS if (words := OPERATORS[name].words) and not words.required}
    assert set(get_args(OperatorWord)) == {*WORDS, *bare}
