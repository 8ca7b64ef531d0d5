"""The headers of /round."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensor_round.contract.dtypes import BY_NAME, DTYPES, DType
from tensor_round.contract.errors import DigestMismatch
from tensor_round.contract.layout import Layout, packed_strides, span
from tensor_round.contract.wire import http_fields

SHA = hashlib.sha256(b"x").digest()
FIELD = f"sha-256=:{base64.b64encode(SHA).decode()}:"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("application/json", "application/json"),
        ("Application/JSON; charset=utf-8", "application/json"),
        ("  application/x-npy\t;a=b;c=d", "application/x-npy"),
        ("", ""),
        (";", ""),
    ],
)
def test_media_type(value: str, expected: str) -> None:
    assert http_fields.media_type(value) == expected


SANE = ["a", "0" * 128, "a.b_c~d:e@f/g+h=i-J", "4f0c-11"]
ODD = ["", "0" * 129, "a b", "a\n", "a\r\nX: y", "é", "a,b", '"', "<x>", "%0a", "\0", "٣"]


@pytest.mark.parametrize("value", SANE + ODD)
def test_sane_request_ids(value: str) -> None:
    assert bool(http_fields.SANE_REQUEST_ID.fullmatch(value.encode())) == (value in SANE)


LONG = b"z" * 64
LONG_FIELD = f"sha-512=:{base64.b64encode(LONG).decode()}:"
ONE, BOTH = {"sha-256": SHA}, {"sha-256": SHA, "sha-512": LONG}
DIGESTS: list[tuple[str, list[str], dict[str, bytes]]] = [
    ("none", [], {}),
    ("sha-256", [FIELD], ONE),
    ("sha-512", [LONG_FIELD], {"sha-512": LONG}),
    ("in capitals", [FIELD.replace("sha", "SHA")], ONE),
    ("with a parameter", [FIELD + ";a=1"], ONE),
    ("among others", [f"crc32c=:AAAA:, {FIELD} ,md5=?1, {LONG_FIELD}"], BOTH),
    ("in lines", [LONG_FIELD, FIELD], BOTH),
    ("the last of several", [f"sha-256=:{base64.b64encode(b'y' * 32).decode()}:", FIELD], ONE),
    ("only others", ["sha=:AAAA:, unixsum=30637, crc32c=:!:"], {}),
    ("others of a similar name", [f"x-{FIELD}"], {}),
]


@pytest.mark.parametrize(
    ("values", "digests"), [case[1:] for case in DIGESTS], ids=[case[0] for case in DIGESTS]
)
def test_content_digest(values: list[str], digests: dict[str, bytes]) -> None:
    assert http_fields.parse_content_digest(values) == digests


@pytest.mark.parametrize(
    "value",
    [
        "sha-256",
        "sha-256=:AAAA:",
        "sha-256=:****:",
        FIELD.replace("=:", "=", 1),
        FIELD.replace("=:", "=:é", 1),
        FIELD.replace("=:", "=:*", 1),
        FIELD[:-2] + ":",
        'sha-256=":AAAA:"',
        f"{FIELD}, sha-256=1",
        f"{FIELD}, sha-512=:AAAA:",
        f"sha-512{FIELD.removeprefix('sha-256')}",
    ],
)
def test_a_malformed_digest_is_a_mismatch(value: str) -> None:
    with pytest.raises(DigestMismatch) as caught:
        http_fields.parse_content_digest([value])
    assert "AAAA" not in caught.value.detail


@given(st.binary(min_size=32, max_size=32))
def test_a_digest_comes_back(sha256: bytes) -> None:
    for name, digest in (("sha-256", sha256), ("sha-512", sha256 * 2)):
        field = http_fields.content_digest(name, digest)
        assert http_fields.parse_content_digest([field]) == {name: digest}


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        ([], None),
        (["sha-256=1"], "sha-256"),
        (["sha-256=10"], "sha-256"),
        (["sha-512=1"], "sha-512"),
        (["sha-256=0"], None),
        (["sha-256=11"], None),
        (["sha-256=x"], None),
        (["sha-256"], None),
        (["sha-512=3, sha-256=10, unixsum=0"], "sha-256"),
        (["sha-512=3", "sha-256=2;a=b"], "sha-512"),
        (["sha-512=3, sha-256=3, md5=10"], "sha-256"),
        (["sha-256=1", "sha-256=0"], None),
    ],
)
def test_wanted_digest(values: list[str], wanted: str | None) -> None:
    assert http_fields.wanted_digest(values) == wanted


# Output-Descriptor


@given(
    st.sampled_from(DTYPES),
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 99)), max_size=6),
    st.integers(0, 99),
)
def test_any_layout_comes_back(dtype: DType, sizes: list[tuple[int, int]], more: int) -> None:
    shape, strides = [size for size, _ in sizes], [stride for _, stride in sizes]
    if dtype.is_sub_byte:
        strides = list(packed_strides(shape))
    least = dtype.nbytes(span(shape, strides))
    layout = Layout.of(dtype, shape, strides, least + more)
    value = http_fields.output_descriptor(layout)
    assert http_fields.describes(value.decode(), layout)
    assert value.isascii()
    assert b"\n" not in value
    assert json.loads(value) == layout.describe()


GOOD = {"dtype": "float32", "shape": [2], "strides": [1], "byte_length": 8}

WRONG_VALUES: dict[str, list[Any]] = {
    "dtype": ["float", "FLOAT32", 1, None, []],
    "shape": [2, None, "2", [2.0], [True], ["2"], [-1], [2**63], [2, 2], [3]],
    "strides": [None, [1.0], [True], [-1], [], [2**63], {}],
    "byte_length": [None, 8.0, True, "8", 7, -1, [8]],
}

VIOLATIONS: list[tuple[str, bytes]] = [
    ("no JSON", b"{"),
    ("no object", b"[]"),
    ("a member twice", b'{"dtype":"float32","dtype":"float32"}'),
    ("too deep", b'{"shape":[[1]]}'),
    ("a member missing", json.dumps({**GOOD} | {"x": 1}).replace('"strides"', '"y"').encode()),
    ("a member more", json.dumps({**GOOD, "x": 1}).encode()),
    *(
        (f"{key} is {value!r}", json.dumps({**GOOD, key: value}).encode())
        for key, values in WRONG_VALUES.items()
        for value in values
    ),
]


@pytest.mark.parametrize("value", [v[1] for v in VIOLATIONS], ids=[v[0] for v in VIOLATIONS])
def test_another_output_descriptor_does_not_describe_the_layout(value: bytes) -> None:
    layout = Layout.of(BY_NAME["float32"], [2], [1], 8)
    assert http_fields.describes(json.dumps(GOOD), layout)
    assert not http_fields.describes(value.decode(), layout)


def test_the_limits_are_the_published_ones() -> None:
    """16 KiB of descriptor, 16 MiB of JSON with 4,096 members, nested as deep as any rank needs."""
    assert http_fields.MAX_DESCRIPTOR_LENGTH == 16_384
    assert http_fields.MAX_JSON_LENGTH == 16_777_216
    assert http_fields.MAX_JSON_MEMBERS == 4_096
    assert http_fields.MAX_JSON_DEPTH == 66
