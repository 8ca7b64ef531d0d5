"""Content codings: a bounded piece at a time, and no more input than there is output for."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import random
import zlib
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.memory import traced
from tensor_round.contract.errors import MalformedEncoding, UnsupportedEncoding
from tensor_round_service.net.codings import (
    CODINGS,
    Decoder,
    decoder_for,
    digest_of,
    encode,
    max_encoded_length,
    preferred_coding,
    requested_coding,
)

TEXT = b"one fact a sentence. " * 500
NOISE = random.Random(1).randbytes(200_000)


def decoder(coding: str = "gzip") -> Decoder:
    found = decoder_for(coding)
    assert found is not None
    return found


def decoded(coding: str, pieces: Iterable[bytes], most: int = 1 << 20) -> bytes:
    """What the pieces decode to, at most so many bytes at a time."""
    steps = decoder(coding)
    content = b""
    for piece in pieces:
        steps.feed(piece)
        while step := steps.decode(most):
            assert len(step) <= most
            content += step
    steps.finish()
    return content


def cut(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]


ENCODED: dict[str, tuple[str, bytes, bytes]] = {
    "gzip": ("gzip", gzip.compress(TEXT, mtime=0), TEXT),
    "x-gzip": ("X-GZip", gzip.compress(TEXT, mtime=0), TEXT),
    "gzip-name": (
        "gzip",
        b"\x1f\x8b\x08\x08\0\0\0\0\0\3a\0" + gzip.compress(TEXT, mtime=0)[10:],
        TEXT,
    ),
    "gzip-of-nothing": ("gzip", gzip.compress(b"", mtime=0), b""),
    "gzip-members": (
        "gzip",
        gzip.compress(b"ab", mtime=0) + gzip.compress(TEXT, mtime=0),
        b"ab" + TEXT,
    ),
    "gzip-empty-members": (
        "gzip",
        gzip.compress(b"", mtime=0) * 3 + gzip.compress(b"a", mtime=0),
        b"a",
    ),
    "deflate": (" deflate\t", zlib.compress(TEXT), TEXT),
    "deflate-of-nothing": ("deflate", zlib.compress(b""), b""),
    "noise": ("gzip", gzip.compress(NOISE[:5000], mtime=0), NOISE[:5000]),
}


@pytest.mark.parametrize(("coding", "encoded", "content"), ENCODED.values(), ids=ENCODED)
@pytest.mark.parametrize("most", [1, 7, 1 << 20])
def test_sound_encodings_decode(coding: str, encoded: bytes, content: bytes, most: int) -> None:
    for size in (1, 3, len(encoded)):
        assert decoded(coding, cut(encoded, size), most) == content


@pytest.mark.parametrize("coding", ["", " ", "identity", "Identity"])
def test_identity_needs_no_decoder(coding: str) -> None:
    assert decoder_for(coding) is None


@pytest.mark.parametrize("coding", ["br", "zstd", "gzip, gzip", "gzip;q=1", "compress", "*"])
def test_other_codings_are_not_known(coding: str) -> None:
    with pytest.raises(UnsupportedEncoding):
        decoder_for(coding)


MALFORMED: dict[str, tuple[str, bytes]] = {
    "nothing": ("gzip", b""),
    "text": ("gzip", b"text"),
    "deflate-as-gzip": ("gzip", zlib.compress(TEXT)),
    "deflate-as-x-gzip": ("x-gzip", zlib.compress(TEXT)),
    "gzip-as-deflate": ("deflate", gzip.compress(TEXT, mtime=0)),
    "raw-deflate": ("deflate", zlib.compress(TEXT)[2:-4]),
    "behind-gzip": ("gzip", gzip.compress(TEXT, mtime=0) + b"a"),
    "zeros-behind-gzip": ("gzip", gzip.compress(TEXT, mtime=0) + bytes(20)),
    "behind-deflate": ("deflate", zlib.compress(TEXT) + b"a"),
    "two-of-deflate": ("deflate", zlib.compress(TEXT) * 2),
    "wrong-checksum": ("gzip", gzip.compress(TEXT, mtime=0)[:-8] + bytes(8)),
    "wrong-length": ("gzip", gzip.compress(TEXT, mtime=0)[:-4] + bytes(4)),
    "wrong-checksum-of-deflate": ("deflate", zlib.compress(TEXT)[:-4] + bytes(4)),
    "second-member-cut": ("gzip", gzip.compress(TEXT, mtime=0) + gzip.compress(TEXT, mtime=0)[:-1]),
}


@pytest.mark.parametrize(("coding", "encoded"), MALFORMED.values(), ids=MALFORMED)
def test_wrong_encodings_are_rejected(coding: str, encoded: bytes) -> None:
    for size in (1, 3, 1 << 20):
        with pytest.raises(MalformedEncoding):
            decoded(coding, cut(encoded, size))


@pytest.mark.parametrize(
    "encoded", [gzip.compress(b"abc" * 9, mtime=0), gzip.compress(b"", mtime=0)]
)
def test_truncated_encoding_is_rejected(encoded: bytes) -> None:
    for length in range(len(encoded)):
        with pytest.raises(MalformedEncoding):
            decoded("gzip", cut(encoded[:length], 5))


def test_a_bomb_goes_off_a_step_at_a_time() -> None:
    size = 64 << 20
    bomb = gzip.compress(bytes(size), mtime=0)
    assert len(bomb) * 1032 >= size  # two bits can encode 258 bytes
    steps = decoder()
    steps.feed(bomb)
    with traced() as most:
        for _ in range(20):
            assert len(steps.decode(10_000)) <= 10_000
        peak = most()
    assert peak < 10 * len(bomb)


@pytest.mark.parametrize(
    "first",
    [
        gzip.compress(b"", mtime=0),
        gzip.compress(b"a" * 9_000, mtime=0) + gzip.compress(b"", mtime=0),
    ],
)
def test_members_of_nothing_come_to_an_end(first: bytes) -> None:
    steps = decoder()
    steps.feed(first)
    made = 0
    while step := steps.decode(1 << 10):
        made += len(step)
    piece = gzip.compress(b"", mtime=0) * 50
    fed = len(first)

    def feed_in_vain() -> None:
        nonlocal fed
        while fed < 1 << 20:
            steps.feed(piece)
            fed += len(piece)
            assert not steps.decode(1 << 10)

    with pytest.raises(MalformedEncoding, match="longer than the decoded one"):
        feed_in_vain()
    bound = (64 << 10) + 2 * made
    assert bound < fed <= bound + len(piece)


@pytest.mark.parametrize("more", [0, 1])
def test_the_encoded_bytes_that_so_few_may_have(more: int) -> None:
    """Twice the decoded ones and 64 KiB, to the byte: the rest is a long name in the head."""
    content = b"0123456789"
    plain = gzip.compress(content, mtime=0)
    name = bytes([65]) * (2 * len(content) + (64 << 10) + more - len(plain) - 1) + b"\0"
    encoded = plain[:3] + b"\x08" + plain[4:10] + name + plain[10:]
    if more:
        with pytest.raises(MalformedEncoding, match="longer than the decoded one"):
            decoded("gzip", [encoded])
    else:
        assert decoded("gzip", [encoded]) == content


@pytest.mark.parametrize("coding", CODINGS)
@pytest.mark.parametrize("content", [b"", b"a", TEXT, NOISE[:100], NOISE], ids=len)
def test_encoding_is_undone_and_bounded(coding: str, content: bytes) -> None:
    for size in (1, 1000, 1 << 20) if len(content) < 1000 else (4097, 1 << 20):
        encoded = encode([memoryview(part) for part in cut(content, size)], coding)
        assert all(encoded)
        assert sum(map(len, encoded)) <= max_encoded_length(len(content))
        assert decoded(coding, encoded) == content


@given(st.binary(max_size=100), st.integers(0, 60), st.integers(1, 9))
def test_spoilt_streams_decode_or_are_malformed(spoilt: bytes, kept: int, size: int) -> None:
    with contextlib.suppress(MalformedEncoding):
        decoded("gzip", cut(gzip.compress(TEXT, mtime=0)[:kept] + spoilt, size), 1000)


def test_long_work_has_pauses() -> None:
    parts, pauses = [bytes(3 << 20), memoryview(NOISE)], list[None]()
    assert (
        digest_of("sha-256", parts, lambda: pauses.append(None))
        == hashlib.sha256(b"".join(parts)).digest()
    )
    assert 4 <= len(pauses) <= 16
    pauses.clear()
    encoded = encode(parts, "gzip", lambda: pauses.append(None))
    assert gzip.decompress(b"".join(encoded)) == b"".join(parts)
    assert 4 <= len(pauses) <= 16


@pytest.mark.parametrize(("nbytes", "longest"), [(0, 1024), (10_000_000, 10_011_024)])
def test_the_longest_encoding_is_a_thousandth_longer_and_a_kib(nbytes: int, longest: int) -> None:
    assert max_encoded_length(nbytes) == longest


@pytest.mark.parametrize(
    ("accepted", "coding"),
    [
        ("", "identity"),
        ("gzip", "gzip"),
        ("deflate", "deflate"),
        ("GZIP", "gzip"),
        ("x-gzip", "gzip"),
        ("gzip, deflate", "gzip"),
        ("deflate, gzip", "deflate"),
        ("gzip, deflate, br, zstd", "gzip"),
        ("br", "identity"),
        ("*", "identity"),
        ("identity", "identity"),
        ("identity, gzip", "identity"),
        ("gzip;q=0", "identity"),
        ("gzip;q=0.0, deflate;q=0.001", "deflate"),
        ("gzip;q=0.3, deflate;q=0.8", "deflate"),
        ("gzip ; q=0.3 ,\tdeflate;Q=0.2", "gzip"),
        ("gzip;q=0.5, identity;q=1.0", "identity"),
        ("gzip;q=0.5, identity;q=0", "gzip"),
        ("gzip;level=1;q=0.5, deflate;q=0.6", "deflate"),
        ("gzip;q=x, deflate;q=0.1", "deflate"),
        ("gzip;q=nan", "identity"),
        ("gzip;q=1e9, deflate;q=-1", "identity"),
        ("gzip;q=1.5, deflate;q=0.1", "deflate"),
        ("gzip;q=1.0, deflate", "gzip"),
        (",,gzip,", "gzip"),
    ],
)
def test_preferences(accepted: str, coding: str) -> None:
    assert preferred_coding(accepted, CODINGS) == coding


@pytest.mark.parametrize(
    ("accepted", "coding"),
    [
        ("", "identity"),
        ("gzip", "gzip"),
        ("x-gzip, ,gzip", "gzip"),
        ("deflate;q=0.5", "deflate"),
        ("gzip, deflate", "identity"),
        ("gzip, deflate, br, zstd", "identity"),
        ("gzip, br", "identity"),
        ("gzip, identity", "identity"),
        ("gzip, *", "identity"),
        ("gzip, *;q=0.5", "gzip"),
        ("gzip;q=0.8, deflate;q=0.9", "deflate"),
        ("gzip;q=0.8, br", "identity"),
        ("gzip;q=0", "identity"),
        ("gzip;q=0, deflate;q=0", "identity"),
        ("*", "identity"),
        ("gzip, deflate, identity;q=0", "gzip"),
        ("gzip, deflate, *;q=0", "gzip"),
        ("gzip, deflate, identity;q=0.1, *;q=0", "identity"),
    ],
)
def test_list_of_equal_codings_requests_none(accepted: str, coding: str) -> None:
    assert requested_coding(accepted, CODINGS) == coding


@given(st.text())
def test_any_text_prefers_something(accepted: str) -> None:
    for choose in (preferred_coding, requested_coding):
        assert choose(accepted, CODINGS) in ("identity", *CODINGS)
