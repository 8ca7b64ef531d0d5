"""The file of API keys: what it may say, and which secrets it has."""

from __future__ import annotations

import contextlib
import hmac
import math
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.keys import A, B, digest, who
from tensor_round_service.auth import api_keys
from tensor_round_service.auth.api_keys import ApiKey, KeyFileError, KeyRing, read_keys

DAY_AFTER_2026 = datetime(2027, 1, 1, tzinfo=UTC).timestamp()
GOOD = [
    ("empty", "", []),
    ("comments", "# all\n\n   # of it\n", []),
    ("bare", A, [("line 1", math.inf)]),
    ("upper-case", A.upper(), [("line 1", math.inf)]),
    ("label", f"{A} robot", [("robot", math.inf)]),
    ("expiry", f"{A} 2026-12-31", [("line 1", DAY_AFTER_2026)]),
    ("both", f"{A}\trobot   2026-12-31\r\n", [("robot", DAY_AFTER_2026)]),
    ("comment-behind", f"{A} robot # until further notice", [("robot", math.inf)]),
    ("not-ascii", f"{A} Zoë", [("Zoë", math.inf)]),
    ("longest-label", f"{A} {'x' * 64}", [("x" * 64, math.inf)]),
    ("last-day-there-is", f"{A} 9999-12-31", [("line 1", 253402300800.0)]),
    ("two", f"# keys\n{A} robot\n{B}\n", [("robot", math.inf), ("line 3", math.inf)]),
]


@pytest.mark.parametrize(("text", "found"), [c[1:] for c in GOOD], ids=[c[0] for c in GOOD])
def test_files(text: str, found: list[tuple[str, float]]) -> None:
    assert [(key.label, key.expires) for key in read_keys(text.encode())] == found


BAD = [
    ("key-itself", "correct-horse-battery", "line 1: does not begin with the 64 hex digits"),
    ("short", A[:-1], "line 1: does not begin"),
    ("long", A + "0", "line 1: does not begin"),
    ("not-hex", "g" * 64, "line 1: does not begin"),
    ("full-width-digits", "\uff10" * 64, "line 1: does not begin"),
    ("other-order", f"robot {A}", "line 1: does not begin"),
    ("no-such-day", f"{A} robot 2026-02-30", "YYYY-MM-DD"),
    ("mistyped-date-is-no-label", f"{A} 2026-1-1", "YYYY-MM-DD"),
    ("date-of-another-land", f"{A} robot 31.12.2026", "YYYY-MM-DD"),
    ("time-of-day", f"{A} robot 2026-12-31T12:00:00", "YYYY-MM-DD"),
    ("two-labels", f"{A} robot army", "YYYY-MM-DD"),
    ("label-last", f"{A} 2026-12-31 robot", "may follow the digest"),
    ("too-long-a-label", f"{A} {'x' * 65}", "label"),
    ("not-printable", f"{A} a\u200bb", "label"),
    ("twice", f"{A}\n{B}\n{A.upper()} robot", "line 3: repeats the key of line 1"),
    ("second-line", f"{A}\nnonsense", "line 2"),
]


@pytest.mark.parametrize(("text", "says"), [c[1:] for c in BAD], ids=[c[0] for c in BAD])
def test_broken_files(text: str, says: str) -> None:
    with pytest.raises(KeyFileError, match=says) as caught:
        read_keys(text.encode())
    for word in text.split():
        assert word not in str(caught.value)


def test_a_file_that_is_no_text() -> None:
    with pytest.raises(KeyFileError, match="UTF-8"):
        read_keys(b"\xff\xfe" + A.encode("utf-16-le"))


@given(st.binary(max_size=200))
def test_any_bytes_are_keys_or_a_refusal(content: bytes) -> None:
    with contextlib.suppress(KeyFileError):
        assert all(len(key.digest) == 32 for key in read_keys(content))


def test_a_key_counts_until_the_end_of_its_day() -> None:
    (key,) = read_keys(f"{A} 2026-12-31".encode())
    assert key.is_valid_at(DAY_AFTER_2026 - 1)
    assert not key.is_valid_at(DAY_AFTER_2026)
    assert ApiKey(b"", "no end").is_valid_at(1e12)


def test_finding(path: Path) -> None:
    ring = KeyRing(path)
    assert [who(ring, secret) for secret in ("a", "b", "c", A, "")] == [
        "alice", "bob", None, None, None
    ]  # fmt: skip


def test_every_key_is_compared_with_every_secret(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Which of them matched, and whether one did, must not show in the time it takes.
    compared: list[bytes] = []

    def compare(one: bytes, other: bytes) -> bool:
        compared.append(one)
        return hmac.compare_digest(one, other)

    ring = KeyRing(path)
    monkeypatch.setattr(api_keys, "hmac", SimpleNamespace(compare_digest=compare))
    for secret in ("a", "b", "c"):
        compared.clear()
        ring.find(secret.encode())
        assert compared == [bytes.fromhex(A), bytes.fromhex(B)]


def test_dates_count_in_utc(path: Path) -> None:
    today = datetime.now(UTC).date()
    days = [today - timedelta(1), today, today + timedelta(1)]
    path.write_text("\n".join(f"{digest(str(day))} k {day}" for day in days))
    ring = KeyRing(path)
    assert [who(ring, str(day)) for day in days] == [None, "k", "k"]


@pytest.mark.parametrize("content", [None, "nonsense"], ids=["missing", "broken"])
def test_a_ring_needs_a_good_file_to_start_with(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "keys"
    if content is not None:
        path.write_text(content)
    with pytest.raises(KeyFileError, match=r"API keys: .*keys"):
        KeyRing(path)


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with pytest.raises(KeyFileError, match="no such file"):
        KeyRing(path)
