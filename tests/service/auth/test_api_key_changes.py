"""Changes of the file of API keys: what counts, from when, and what is never refused."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from support.keys import A, B, digest, who
from tensor_round_service.auth import api_keys
from tensor_round_service.auth.api_keys import KeyRing


@pytest.fixture
def _no_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_keys, "POLL_SECONDS", 0.0)


@pytest.mark.usefixtures("_no_wait")
class TestChanges:
    def test_written_over(self, path: Path) -> None:
        ring = KeyRing(path)
        path.write_text(f"{digest('c')} carol\n{B} bob\n")
        assert [who(ring, secret) for secret in "abc"] == [None, "bob", "carol"]

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

    def test_emptied_lets_nobody_in(self, path: Path) -> None:
        ring = KeyRing(path)
        path.write_text("")
        assert who(ring, "a") is None

    @pytest.mark.parametrize("spoil", ["text", "gone", "folder", "huge"])
    def test_broken_keeps_the_keys_and_says_so_once(
        self, path: Path, spoil: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        ring = KeyRing(path)
        if spoil == "text":
            path.write_text("s3cret")
        elif spoil == "huge":
            path.write_text("#" * (api_keys.MAX_FILE_BYTES + 1))
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
    monkeypatch.setattr(api_keys, "POLL_SECONDS", 0.6)
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
    ring = KeyRing(path)
    path.write_text(text)
    began = time.monotonic()
    while who(ring, "a") is not None:
        assert time.monotonic() - began < 30
        time.sleep(0.01)
    assert time.monotonic() - began >= api_keys.POLL_SECONDS


def test_one_request_after_a_long_time_is_enough(path: Path) -> None:
    """Nobody looks while nobody asks: who asks next must not be let in by keys of long ago."""
    ring = KeyRing(path)
    path.write_text(f"{B} bob\n")
    time.sleep(api_keys.POLL_SECONDS + 0.1)
    assert who(ring, "a") is None


def test_a_time_of_modification_in_the_past_does_not_count(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ring = KeyRing(path)
    path.write_text("")
    os.utime(path, (0, 0))
    monkeypatch.setattr(ring, "_next_poll", 0.0)
    assert who(ring, "a") == "alice"


def test_looking_leaves_no_descriptors(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_keys, "POLL_SECONDS", 0.0)
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
