"""Bulk runs as processes that can be killed, and arrays in files and stores for them."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import zarr
from prometheus_client.parser import text_string_to_metric_families

from support.cases.array_cases import Array, bits, expected_bits
from support.forking import Forked, start
from support.http.proxy import Fault, Proxy
from support.services.server import Service


class Run:
    """``tensor-round round`` in a process of its own."""

    def __init__(self, process: Forked, errors: BinaryIO) -> None:
        self.process, self._errors = process, errors

    def kill(self) -> bool:
        """Kill it; whether it had not ended."""
        self.process.kill()
        return self.process.wait(20) == -signal.SIGKILL

    def ended(self) -> tuple[int, str]:
        """Its exit code, and what it wrote to stderr, on one line."""
        code = self.process.wait(60)
        self._errors.seek(0)
        return code, " ".join(self._errors.read().decode().split())


@contextlib.contextmanager
def running(url: str, *arguments: object) -> Iterator[Run]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("TENSOR_ROUND")}
    environment |= {"TENSOR_ROUND_URL": url, "COLUMNS": "400", "NO_COLOR": "1"}
    with tempfile.TemporaryFile() as errors, open(os.devnull, "r+b") as null:
        files = (null.fileno(), null.fileno(), errors.fileno())
        process = start("tensor_round", ["round", *map(str, arguments)], environment, files=files)
        try:
            yield Run(process, errors)
        finally:
            process.kill()


def slow(service: Service, seconds: float = 0.02) -> Proxy:
    """A way to the service that takes so long for each 64 KiB of a connection."""
    return Proxy(service.address, lambda _: Fault(pause_up=seconds))


def journal_of(target: Path) -> Path:
    if target.suffix == ".npy":
        return target.with_name(f".{target.name}.journal")
    return target / ".tensor-round-journal"


def recorded(target: Path, tiles: int = 1, within: float = 30.0) -> int:
    """The finished tiles in a journal, once there are so many."""
    deadline = time.monotonic() + within
    while time.monotonic() < deadline:
        count = 0
        with contextlib.suppress(FileNotFoundError):
            ranges = json.loads(journal_of(target).read_bytes())["done"]
            count = sum(last + 1 - first for first, last in ranges)
        if count >= tiles:
            return count
        time.sleep(0.01)
    raise AssertionError("the run recorded too few tiles")


def is_shown(target: Path) -> bool:
    """Whether readers take what is there for an array."""
    return target.is_file() or (target / "zarr.json").exists()


def quiet(proxy: Proxy) -> None:
    """Return when nothing of a killed process is under way."""
    while proxy.open_now:
        time.sleep(0.01)
    time.sleep(0.1)


def rounded_requests(service: Service) -> int:
    """The requests to ``/round`` that the service has answered with a tensor."""
    text = service.get("/metrics").content.decode()
    return round(
        sum(
            sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == "tensor_round_requests_total"
            and (sample.labels["route"], sample.labels["status"]) == ("/round", "200")
        )
    )


def save(path: Path, x: Array, **options: Any) -> Path:
    """Save an array as a .npy file or a Zarr array, by the path's name."""
    if path.suffix == ".npy":
        np.save(path, x)
    else:
        zarr.create_array(path, shape=x.shape, dtype=x.dtype, **options)[...] = x
    return path


def is_rounded(path: Path | str, x: Array, rounding: str = "ties_to_even") -> bool:
    """Whether the array there is ``x``, rounded, to the bit."""
    is_npy = isinstance(path, Path) and path.suffix == ".npy"
    y = np.load(path, mmap_mode="r") if is_npy else zarr.open_array(path, mode="r")
    found = np.asarray(y[...])
    same = (found.dtype.name, found.shape) == (x.dtype.name, x.shape)
    return same and np.array_equal(bits(found), expected_bits(x, rounding))
