"""API keys: which secrets a file has, when a change of it counts, and which requests need one."""

from __future__ import annotations

import contextlib
import hmac
import json
import logging
import math
import os
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
from fastapi import FastAPI
from hypothesis import given
from hypothesis import strategies as st
from starlette.routing import Route

from support.http.asgi import ask
from support.keys import A, B, digest, who
from tensor_round_service import watched_file
from tensor_round_service.app import create_app
from tensor_round_service.auth import api_keys
from tensor_round_service.auth.api_keys import ApiKey, KeyFileError, KeyRing, read_keys
from tensor_round_service.settings import Settings

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


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "keys"
    file.write_text(f"{A} alice\n{B} bob\n")
    return file


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


@pytest.mark.parametrize("kind", ["missing", "broken", "pipe"])
def test_a_ring_needs_a_good_file_to_start_with(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "keys"
    if kind == "broken":
        path.write_text("nonsense")
    elif kind == "pipe":  # which is not waited for
        os.mkfifo(path)
    with pytest.raises(KeyFileError, match=r"API keys: .*keys: (line 1|there is no such file)"):
        KeyRing(path)


@pytest.fixture
def _no_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watched_file, "POLL_SECONDS", 0.0)


@pytest.mark.usefixtures("_no_wait")
class TestChanges:
    def test_replaced_with_the_same_size_and_time(self, path: Path) -> None:
        ring = KeyRing(path)
        before = path.stat()
        other = path.with_name("new")
        other.write_text(f"{A} carol\n{B} bob\n")
        os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
        other.replace(path)
        assert path.stat().st_size == before.st_size
        assert who(ring, "a") == "carol"

    def test_a_link_turned(self, path: Path) -> None:
        link, other = path.with_name("link"), path.with_name("other")
        link.symlink_to(path)
        other.write_text(A + " carol")
        ring = KeyRing(link)
        link.unlink()
        link.symlink_to(other)
        assert who(ring, "a") == "carol"

    @pytest.mark.parametrize("spoil", ["text", "gone", "folder", "huge"])
    def test_broken_keeps_the_keys_and_says_so_once(
        self, path: Path, spoil: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        ring = KeyRing(path)
        if spoil == "text":
            path.write_text("s3cret")
        elif spoil == "huge":
            path.write_text("#" * (watched_file.MAX_FILE_BYTES + 1))
        else:
            path.unlink()
        if spoil == "folder":
            path.mkdir()
        with caplog.at_level(logging.INFO, "tensor_round_service"):
            assert [who(ring, "a") for _ in range(3)] == ["alice"] * 3
            (record,) = caplog.records
            assert record.levelno == logging.ERROR
            assert "the previous keys stay in effect" in record.getMessage()
            assert "s3cret" not in record.getMessage()
            caplog.clear()
            if spoil == "folder":
                path.rmdir()
            path.write_text(f"{A} carol")
            assert [who(ring, "a") for _ in range(3)] == ["carol"] * 3
            (record,) = caplog.records
            assert record.levelno == logging.INFO
            assert A not in record.getMessage()


def written_over(path: Path, text: str) -> None:
    """As a shell's ``>`` does it, at leisure: empty first, then half a line, then all."""
    with path.open("w") as file:
        for part in (text[:30], text[30:]):
            time.sleep(0.02)
            file.write(part)
            file.flush()


def replaced(path: Path, text: str) -> None:
    """Away with the old one, then another by its name."""
    path.unlink()
    time.sleep(0.02)
    written_over(path, text)


@pytest.mark.parametrize("write", [written_over, replaced])
def test_no_valid_key_is_refused_while_the_file_is_written(
    path: Path,
    write: Callable[[Path, str], None],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    # Far above what the writer sleeps: a busy machine lets it sleep longer.
    monkeypatch.setattr(watched_file, "POLL_SECONDS", 0.6)
    ring = KeyRing(path)
    text, done = path.read_text(), threading.Event()

    def rewrite() -> None:
        for turn in range(60):
            write(path, f"{text}# {turn}\n")
        done.set()

    writer = threading.Thread(target=rewrite)
    writer.start()
    found = set()
    while not done.is_set():
        found.add((who(ring, "a"), who(ring, "b")))
        time.sleep(0.001)
    writer.join()
    assert found == {("alice", "bob")}
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


@pytest.mark.parametrize("text", ["", f"{B} bob\n", f"{B} bob"], ids=["empty", "less", "cut"])
def test_a_key_taken_out_counts_within_two_seconds(path: Path, text: str) -> None:
    began = time.monotonic()
    ring = KeyRing(path)
    path.write_text(text)
    while who(ring, "a") is not None:
        assert time.monotonic() - began < 30
        time.sleep(0.01)
    assert time.monotonic() - began >= watched_file.POLL_SECONDS


def test_one_request_after_a_long_time_is_enough(path: Path) -> None:
    """Nobody looks while nobody asks: who asks next must not be let in by keys of long ago."""
    ring = KeyRing(path)
    path.write_text(f"{B} bob\n")
    time.sleep(watched_file.POLL_SECONDS + 0.1)
    assert who(ring, "a") is None


def test_a_time_of_modification_in_the_past_does_not_count(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ring = KeyRing(path)
    path.write_text("")
    os.utime(path, (0, 0))
    monkeypatch.setattr(ring._file, "_next_poll", 0.0)
    assert who(ring, "a") == "alice"


def test_looking_leaves_no_descriptors(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watched_file, "POLL_SECONDS", 0.0)
    ring = KeyRing(path)
    before = len(os.listdir("/proc/self/fd"))
    for spoil in (path.touch, path.unlink, path.mkdir, path.rmdir, partial(os.mkfifo, path)):
        spoil()
        assert [who(ring, "a") for _ in range(3)] == ["alice"] * 3
    assert len(os.listdir("/proc/self/fd")) == before


def test_the_file_is_not_looked_at_all_the_time(path: Path) -> None:
    ring = KeyRing(path)
    path.write_text("")
    assert who(ring, "a") == "alice"


KEY = "correct horse battery staple"
EXPIRED = "swordfish"
BEARER = [("Authorization", f"Bearer {KEY}")]
OPEN_PATHS = create_app(Settings(backend="numpy")).table.open_paths


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> FastAPI:
    path = tmp_path_factory.mktemp("keys") / "keys"
    path.write_text(f"{digest(KEY)} robot\n{digest(EXPIRED)} rusty 2020-02-29\n")
    return create_app(Settings(api_keys_file=path, backend="numpy"))


ADMITTED = [
    ("bearer", BEARER),
    ("any-case", [("authorization", f"bEaReR {KEY}")]),
    ("spaces", [("Authorization", f" Bearer   {KEY} ")]),
    ("x-api-key", [("X-API-Key", KEY)]),
    ("x-api-key-spaces", [("x-api-key", f" {KEY}\t")]),
]


@pytest.mark.parametrize("headers", [c[1] for c in ADMITTED], ids=[c[0] for c in ADMITTED])
def test_a_key_opens(app: FastAPI, headers: list[tuple[str, str]]) -> None:
    assert ask(app, "GET", "/operators", headers).status == 200


REFUSED = [
    ("nothing", [], "no API key"),
    ("empty", [("X-API-Key", "")], "no API key"),
    ("empty-bearer", [("Authorization", "Bearer ")], "no API key"),
    ("scheme-alone", [("Authorization", "Bearer")], "no API key"),
    ("no-scheme", [("Authorization", KEY.replace(" ", ""))], "no API key"),
    ("other-scheme", [("Authorization", f"Basic {KEY}")], "no API key"),
    ("cookie", [("Cookie", f"api_key={KEY}")], "no API key"),
    ("wrong", [("Authorization", "Bearer nonsense")], "not valid"),
    ("nearly", [("X-API-Key", KEY + "!")], "not valid"),
    ("its-digest", [("X-API-Key", digest(KEY))], "not valid"),
    ("expired", [("X-API-Key", EXPIRED)], "not valid"),
    ("not-ascii", [("X-API-Key", "schlüssel")], "not valid"),
    ("both-ways", [*BEARER, ("X-API-Key", KEY)], "more than one"),
    ("two-authorizations", [*BEARER, *BEARER], "more than one"),
    ("good-and-bad", [*BEARER, ("Authorization", "Bearer nonsense")], "more than one"),
    ("two-x-api-keys", [("X-API-Key", KEY), ("X-API-Key", KEY)], "more than one"),
]


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize(("headers", "says"), [c[1:] for c in REFUSED], ids=[c[0] for c in REFUSED])
def test_nothing_else_does(
    app: FastAPI, headers: list[tuple[str, str]], says: str, method: str
) -> None:
    path = "/round" if method == "POST" else "/operators"
    answer = ask(app, method, path, [*headers, ("X-Request-ID", "mine")])
    assert answer.status == 401
    assert answer.headers["www-authenticate"].startswith("Bearer")
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["x-request-id"] == "mine"
    assert answer.headers["cache-control"] == "no-store"
    document = json.loads(answer.content)
    assert document["code"] == "unauthorized"
    assert says in document["detail"]
    for secret in (KEY, EXPIRED, digest(KEY), "nonsense", "schl", "robot", "rusty"):
        assert secret not in str(answer)


def test_expired_and_unknown_keys_get_the_same_response(app: FastAPI) -> None:
    answers = [
        ask(app, "GET", "/operators", [("X-API-Key", key), ("X-Request-ID", "1")])
        for key in (EXPIRED, "unknown")
    ]
    assert answers[0] == answers[1]


#: Those with a slash more.
SLASHED = ["/livez/", "/openapi.json/", "/v2/health/ready/"]


@pytest.mark.parametrize("path", [*sorted(OPEN_PATHS), *SLASHED])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_health_and_the_docs_are_open(app: FastAPI, method: str, path: str) -> None:
    assert ask(app, method, path).status == (308 if path == "/docs/" else 200)


#: Beside the routes.
SHUT = [
    "/docs/nothing",
    "/docs/../operators",
    "/docs//",
    "//",
    "/operators/",
    "/v2/",
    "/v2/models/round/ready",
    "/v2/health",
    "/v2/health/",
    "/v2/health/live/../../models/stats",
    "/livez//",
    "//livez",
    "/LIVEZ",
    "/livez;x",
    "/nowhere",
    "*",
]


@pytest.mark.parametrize("path", SHUT)
def test_everything_else_is_shut_known_or_not(app: FastAPI, path: str) -> None:
    answer = ask(app, "GET", path)
    assert answer.status == 401
    if path.startswith("/v2"):
        assert answer.headers["content-type"] == "application/json"
        assert list(json.loads(answer.content)) == ["error"]


def test_every_route_is_shut_but_the_open_ones(app: FastAPI) -> None:
    paths = {route.path for route in app.routes if isinstance(route, Route)}
    paths |= set(app.openapi()["paths"])
    assert {"/", "/livez", "/round", "/operators", "/v2/models/round/infer"} <= paths
    for path in paths - OPEN_PATHS:
        for method in ("GET", "POST", "HEAD", "OPTIONS", "DELETE"):
            assert ask(app, method, path).status == 401


def test_the_openapi_document_tells_where_a_key_is_needed(app: FastAPI) -> None:
    document = app.openapi()
    assert document["security"] == [{"bearer": []}, {"apiKey": []}]
    assert set(document["components"]["securitySchemes"]) == {"bearer", "apiKey"}
    for path, operations in document["paths"].items():
        for operation in operations.values():
            assert (operation.get("security") == []) == (path in OPEN_PATHS)
            assert ("401" in operation["responses"]) == (path not in OPEN_PATHS)
    assert "security" not in create_app(Settings(backend="numpy")).openapi()


def test_without_a_key_file_all_is_open() -> None:
    app = create_app(Settings(backend="numpy"))
    assert ask(app, "GET", "/operators").status == 200
    assert ask(app, "GET", "/operators", [("X-API-Key", "whatever")]).status == 200
