"""Bulk runs that end early, in every way: the same command continues them."""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import signal
import time
from pathlib import Path

import numpy as np
import pytest

import tensor_round as tr
from support.cases.array_cases import patterns
from support.cases.bulk_runs import (
    is_rounded,
    is_shown,
    journal_of,
    quiet,
    recorded,
    rounded_requests,
    running,
    save,
    slow,
)  # fmt: skip
from support.command_line import bad, good
from support.http.proxy import Fault, Proxy
from support.services.server import Service
from tensor_round.contract.operators import as_operator
from tensor_round_cli.bulk.bulk_run import BulkRun
from tensor_round_cli.bulk.npy_arrays import NpySource, NpyTarget

#: 48 tiles of 128 KiB; in a Zarr array 6 shards, or 24 chunks.
X = patterns("float32", 6 << 18).reshape(1536, 1024)
TILE_BYTES = 128 << 10
STORED = {"chunks": (256, 256), "shards": (512, 512)}
#: From and to what, and how often it is killed; `make stress ARGS=kills` does it more often.
KINDS = {"npy to npy": ("npy", "npy", 2), "zarr to zarr": ("zarr", "zarr", 1)}


@pytest.mark.parametrize(("from_", "to", "kills"), KINDS.values(), ids=KINDS)
def test_killed_again_and_again(
    service: Service, tmp_path: Path, from_: str, to: str, kills: int
) -> None:
    options = STORED if from_ == "zarr" else {}
    source = save(tmp_path / f"in.{from_}", X, **options)
    target = tmp_path / f"out.{to}"
    command = (source, target, "--tile-bytes", TILE_BYTES, "--rounding", "ties_to_away")
    with slow(service, 0.08) as proxy:
        before = 0
        for _ in range(kills):
            with running(proxy.url, *command) as run:
                before = recorded(target, before + 1)
                time.sleep(random.uniform(0, 0.1))
                assert run.kill()
            assert not is_shown(target)
        quiet(proxy)
    before = recorded(target, before)
    sent = rounded_requests(service)
    done = good("round", *command, "--json", url=service.url)
    report = json.loads(done.stdout)
    assert report["tiles_resumed"] == before
    requests = report["tiles"] - before
    assert rounded_requests(service) - sent == requests * (1 if to == "npy" else 8)
    assert is_rounded(target, X, "ties_to_away")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([source.name, target.name])
    assert not journal_of(target).exists()


@pytest.mark.parametrize("to", ["npy", "zarr"])
def test_control_c(service: Service, tmp_path: Path, to: str) -> None:
    source, target = save(tmp_path / "in.npy", X), tmp_path / f"out.{to}"
    command = (source, target, "--tile-bytes", TILE_BYTES)
    with slow(service) as proxy, running(proxy.url, *command) as run:
        recorded(target)
        run.process.send_signal(signal.SIGINT)
        code, errors = run.ended()
    assert code == 130
    before = recorded(target)
    begun = re.fullmatch(
        r"tensor-round: interrupted: (\d+) of (\d+) tiles are done: the same command continues",
        errors,
    )
    assert begun is not None
    assert int(begun[1]) == before
    done = good("round", *command, url=service.url)
    told = rf"""resuming: {before} of {begun[2]} tiles are done
6.0 MiB in {begun[2]} tiles, {before} of them earlier, [0-9.]+ s, [0-9.,]+ ([KMG]i)?B/s
"""
    assert re.fullmatch(told, done.stderr.decode())
    assert is_rounded(target, X)


class Failing:
    """The plan of a proxy whose first connections break, and that makes no others for a time."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._until: float | None = None

    def __call__(self, number: int) -> Fault:
        if number < 4:
            return Fault(pause_up=0.02, cut_up=6 * TILE_BYTES)
        self._until = self._until or time.monotonic() + self._seconds
        return Fault(cut_up=0) if time.monotonic() < self._until else Fault()


#: Why a run in this process ends: its options, and the error.
ENDS: dict[str, tuple[Fault | None, dict[str, float], type[tr.TensorRoundError]]] = {
    "the service is gone": (None, {"patience": 0.5}, tr.ConnectionFailed),
    "no time is left": (Fault(pause_up=0.03), {"timeout": 0.6}, tr.DeadlineExceeded),
}


@pytest.mark.parametrize(("fault", "options", "error"), ENDS.values(), ids=ENDS)
def test_errors_say_that_the_run_can_be_continued(
    service: Service,
    tmp_path: Path,
    fault: Fault | None,
    options: dict[str, float],
    error: type[tr.TensorRoundError],
) -> None:
    given = NpySource(save(tmp_path / "in.npy", X), None)
    target = tmp_path / "out.npy"
    plan = Failing(60) if fault is None else lambda _: fault
    with Proxy(service.address, plan) as proxy, tr.Client(proxy.url, retries=0) as client:
        run = BulkRun(
            "in.npy", given, NpyTarget(target, given.header, given.dtype),
            as_operator("ties_to_even"), client, TILE_BYTES, connections=4, **options,
        )  # fmt: skip
        with pytest.raises(error, match="of 48 tiles are done: the same command continues"):
            run.run()
    assert recorded(target)


def test_a_service_that_comes_back_is_waited_for(service: Service, tmp_path: Path) -> None:
    source, target = save(tmp_path / "in.npy", X), tmp_path / "out.npy"
    with Proxy(service.address, Failing(1.0)) as proxy:
        good("round", source, target, "--tile-bytes", TILE_BYTES, url=proxy.url)
        assert len(proxy.seen) > 8
    assert is_rounded(target, X)


def test_several_services(service: Service, tmp_path: Path) -> None:
    source, target = save(tmp_path / "in.npy", X), tmp_path / "out.npy"
    with Proxy(service.address, Failing(60)) as failing, Proxy(service.address) as proxy:
        urls = f"{failing.url},{proxy.url}"
        good("round", source, target, "--tile-bytes", TILE_BYTES, url=urls)
        assert failing.seen
        assert proxy.seen
    assert is_rounded(target, X)


def test_other_arguments_are_another_run(service: Service, tmp_path: Path) -> None:
    source, target = save(tmp_path / "in.npy", X), tmp_path / "out.npy"
    command = (source, target, "--tile-bytes", TILE_BYTES)
    with slow(service) as proxy, running(proxy.url, *command) as run:
        recorded(target)
        # Nor can another process write there meanwhile.
        bad(1, "another process is writing it", "round", *command, url=service.url)
        assert run.kill()
    other = ("round", *command, "--rounding", "toward_zero")
    errors = bad(2, "rounding was ties_to_even and is toward_zero", *other, url=service.url)
    finish = (
        f"tensor-round round {source} {target} --operator ties_to_even --tile-bytes {TILE_BYTES}"
    )
    assert errors.splitlines()[0] == f"unfinished: {finish}"
    told = bad(2, finish, *other, "--json", url=service.url)
    assert json.loads(told)
    np.save(source, X[::-1])
    bad(2, "source's mtime was", "round", *command, url=service.url)
    assert good(*other, "--restart", url=service.url).stderr.count(b"\n") == 1
    assert is_rounded(target, X[::-1], "toward_zero")


def test_a_journal_that_another_has_changed(service: Service, tmp_path: Path) -> None:
    source, target = save(tmp_path / "in.npy", X), tmp_path / "out.npy"
    command = ("round", source, target, "--tile-bytes", TILE_BYTES)
    with slow(service) as proxy, running(proxy.url, *command[1:]) as run:
        recorded(target)
        assert run.kill()
    document = json.loads(journal_of(target).read_bytes())
    del document["sha256"]
    document["done"] = [[0, 10**15]]
    text = json.dumps(document, sort_keys=True)
    document["sha256"] = hashlib.sha256(text.encode()).hexdigest()
    journal_of(target).write_text(json.dumps(document))
    bad(1, "was not written by a run: --restart starts anew", *command, url=service.url)
    good(*command, "--restart", url=service.url)
    assert is_rounded(target, X)


def test_a_planted_link_is_refused(service: Service, tmp_path: Path) -> None:
    source, target = save(tmp_path / "in.npy", X), tmp_path / "out.npy"
    victim, link = tmp_path / "victim", tmp_path / ".out.npy.partial"
    victim.write_text("mine")
    link.symlink_to(victim)
    command = ("round", source, target, "--tile-bytes", TILE_BYTES)
    bad(1, "out.npy.partial: it is a link: remove it first", *command, url=service.url)
    assert (victim.read_text(), target.exists()) == ("mine", False)
    link.unlink()
    good(*command, url=service.url)
    assert is_rounded(target, X)


def test_a_source_that_changes_meanwhile(service: Service, tmp_path: Path) -> None:
    source, target = save(tmp_path / "in.npy", X), tmp_path / "out.npy"
    with (
        slow(service) as proxy,
        running(proxy.url, source, target, "--tile-bytes", 64 << 10) as run,
    ):
        recorded(target)
        os.utime(source)
        code, errors = run.ended()
    assert (code, "in.npy has changed meanwhile: run the command again" in errors) == (1, True)
    assert [path.name for path in tmp_path.iterdir()] == ["in.npy"]


def test_the_source_as_target(service: Service, tmp_path: Path) -> None:
    source = save(tmp_path / "x.npy", X)
    command = (source, source, "--tile-bytes", TILE_BYTES, "--overwrite")
    with (
        slow(service) as proxy,
        running(proxy.url, *command) as run,
    ):
        recorded(source)
        assert run.kill()
    assert np.array_equal(np.load(source), X, equal_nan=True)
    assert b"resuming: " in good("round", *command, url=service.url).stderr
    assert is_rounded(source, X)
