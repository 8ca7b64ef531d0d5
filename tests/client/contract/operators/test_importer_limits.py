"""The limits of what importers read: at each a text is taken, and one beyond it is not."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

import tensor_round as tr
from tensor_round.contract.operators.importers import dxdispatch, openvino_layer


def layer(body: str) -> str:
    return f"<layer type='Round'>{body}</layer>"


def nested(count: int) -> str:
    return "<a>" * count + "</a>" * count


def filled(text: str, length: int) -> str:
    """The text with spaces before its last tag."""
    begin, _, end = text.rpartition("</")
    return f"{begin}{' ' * (length - len(text))}</{end}"


#: A text for a number, and the most that is taken of it.
LIMITS: dict[str, tuple[Callable[[int], str], int, str]] = {
    "bytes of a layer": (
        lambda count: filled(layer(""), count),
        1 << 16,
        "at most 65536 bytes, got 65537",
    ),
    "bytes of a model": (
        lambda count: filled(f"<net>{layer('')}</net>", count),
        1 << 26,
        "at most 67108864 bytes",
    ),
    "nesting in a layer": (lambda count: layer(nested(count - 1)), 16, "nests deeper than 16"),
    "nesting in a model": (
        lambda count: f"<net>{nested(count - 1)}{layer('')}</net>",
        64,
        "nests deeper than 64",
    ),
    "elements of a model's Rounds": (
        lambda count: f"<net>{layer('<a/>' * (count - 1))}</net>",
        1 << 17,
        "at most 131072 elements",
    ),
}


@pytest.mark.parametrize(("make", "most", "why"), LIMITS.values(), ids=LIMITS)
def test_openvino_s_limits_are_inclusive(make: Callable[[int], str], most: int, why: str) -> None:
    assert tr.from_openvino(make(most)) == tr.OpenVINORound()
    with pytest.raises(tr.InvalidDescriptor, match=why):
        tr.from_openvino(make(most + 1))


ROUND = """{"type": "DML_OPERATOR_ELEMENT_WISE_ROUND", "desc": {
    "InputTensor": {"DataType": "FLOAT32", "Sizes": [3]},
    "OutputTensor": {"DataType": "FLOAT32", "Sizes": [3]}
}, "more": MORE}"""

#: Likewise, as another member of an operator.
DXDISPATCH_LIMITS: dict[str, tuple[Callable[[int], str], int, str]] = {
    "bytes": (
        lambda count: ROUND.replace("MORE", f'"{"x" * (count - len(ROUND) + 2)}"'),
        1 << 24,
        "has more than 16777216 bytes",
    ),
    "nesting": (
        lambda count: ROUND.replace("MORE", "[" * (count - 1) + "]" * (count - 1)),
        32,
        "nests deeper than 32",
    ),
    "arrays and objects": (
        # Six are ROUND's own, and one is around them.
        lambda count: ROUND.replace("MORE", f"[{','.join(['[]'] * (count - 7))}]"),
        1 << 16,
        "more than 65536 arrays",
    ),
    "members": (
        # Nine are ROUND's own.
        lambda count: ROUND.replace("MORE", json.dumps(dict.fromkeys(range(count - 9)))),
        1 << 16,
        "more than 65536 members",
    ),
}


@pytest.mark.parametrize(("make", "most", "why"), DXDISPATCH_LIMITS.values(), ids=DXDISPATCH_LIMITS)
def test_dxdispatch_s_limits_are_inclusive(make: Callable[[int], str], most: int, why: str) -> None:
    assert tr.from_dxdispatch(make(most)) == tr.DirectMLRound()
    with pytest.raises(tr.MalformedJSON, match=why):
        tr.from_dxdispatch(make(most + 1))


def test_the_limits_of_lengths_are_the_published_ones() -> None:
    assert openvino_layer.MAX_LENGTH == 65_536
    assert openvino_layer.MAX_MODEL_LENGTH == 67_108_864
    assert openvino_layer.MAX_ELEMENTS == 131_072
    assert dxdispatch.MAX_LENGTH == 16_777_216
