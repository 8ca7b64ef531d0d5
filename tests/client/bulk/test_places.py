"""Paths and URLs: what is where, and which names are secret."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from tensor_round.bulk import durable, places
from tensor_round.bulk.places import Place, PlaceError

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


def test_names_have_no_secrets() -> None:
    assert Place.of("https://me:word@host:1/a.npy?key=1").name == "https://host:1/a.npy"


def test_a_locked_file_is_another_s(tmp_path: Path) -> None:
    path = tmp_path / "x"
    held = durable.lock(path)
    with pytest.raises(BlockingIOError, match="another process") as caught:
        durable.lock(path)
    assert caught.value.errno == errno.EAGAIN
    path.rename(tmp_path / "whole")
    assert durable.lock(path) != held


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
