"""Paths and URLs: what is where, and which names are secret."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from tensor_round_cli.bulk import durable, places
from tensor_round_cli.bulk.places import Place, PlaceError

KINDS = {
    "a.npy": (True, False),
    "a": (True, False),
    "data.zarr": (True, True),
    "data.zarr/group/x": (True, True),
    "data.zarr/x.npy": (True, False),
    "file:///a%20b.npy": (True, False),
    "s3://bucket/a.npy": (False, False),
    "https://host/a.npy?signature=x.zarr": (False, False),
    "s3://bucket/group/x": (False, True),
    "memory://x.zarr": (False, True),
}


@pytest.mark.parametrize("text", KINDS)
def test_what_is_where(text: str) -> None:
    place = Place.of(text)
    assert (place.path is not None, place.is_zarr) == KINDS[text]


def test_a_url_of_a_file() -> None:
    assert Place.of("file:///a%20b.npy").path == Path("/a b.npy")


@pytest.mark.parametrize("chain", ["", "simplecache::"])
def test_names_have_no_secrets(chain: str) -> None:
    place = Place.of(f"{chain}https://me:w@rd@host:1/a@b.npy?key=1")
    assert place.name == f"{chain}https://host:1/a@b.npy"


def test_errors_of_file_systems_have_no_secrets() -> None:
    def call() -> None:
        raise ValueError("403, url='https://me:word@host/a.npy?key=1', message='Forbidden'")

    with pytest.raises(PlaceError) as caught:
        places.tried("x", call, again=False)
    why = "403, url='https://host/a.npy', message='Forbidden'"
    assert str(caught.value) == f"x: ValueError: {why}"


def test_of_a_group_of_errors_the_first_is_told() -> None:
    def call() -> None:
        raise ExceptionGroup("a", [ExceptionGroup("b", [ValueError("too long"), OSError("x")])])

    with pytest.raises(PlaceError, match=r"^x: ValueError: too long$"):
        places.tried("x", call, again=False)


@pytest.mark.skipif(not durable.HAS_LOCKS, reason="Windows has no such locks")
def test_a_file_system_without_locks_costs_no_descriptor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(descriptor: int, _how: int) -> None:
        seen.append(descriptor)
        raise OSError(errno.ENOLCK, "No locks available")

    seen: list[int] = []
    monkeypatch.setattr("fcntl.flock", refuse)
    with pytest.raises(OSError, match="No locks"):
        durable.lock(tmp_path / "x")
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(seen[0])


def test_a_locked_file_is_another_s(tmp_path: Path) -> None:
    path = tmp_path / "x"
    held = durable.lock(path)
    with pytest.raises(BlockingIOError, match="another process") as caught:
        durable.lock(path)
    assert caught.value.errno == errno.EAGAIN
    path.rename(tmp_path / "whole")
    assert durable.lock(path) != held


@pytest.mark.skipif(not hasattr(os, "O_NOFOLLOW"), reason="Windows has no such flag")
@pytest.mark.parametrize("is_there", [True, False])
def test_no_link_is_locked(tmp_path: Path, is_there: bool) -> None:
    victim = tmp_path / "victim"
    if is_there:
        victim.write_text("mine")
    (tmp_path / "x").symlink_to(victim)
    with pytest.raises(OSError, match="it is a link: remove it first"):
        durable.lock(tmp_path / "x")
    assert victim.exists() == is_there


def test_calls_are_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "PAUSES", (0.0, 0.0))
    tries = iter(
        [OSError("once"), ValueError("twice"), None, OSError("1"), OSError("2"), OSError("3")]
    )

    def call() -> str:
        if error := next(tries):
            raise error
        return "result"

    assert places.tried("x", call) == "result"
    with pytest.raises(PlaceError, match="x: OSError: 3"):
        places.tried("x", call)
