"""Prove the GPU backend on the GPU of this machine, and measure it; at most five minutes.

    python -m gpu_check

Writes bench/results/gpu-<device>-<date>.json and prints the table. Exit status 1 where a
bit differs or a target is missed. `make gpu-check` installs what it needs.
"""

from __future__ import annotations

import datetime
import json
import re
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

import cupy

from exhaustive.sweeps import DEVICE_CHUNK, Task, by_backend, numpy, sweep
from tensor_round_service.backends.cpu.backend import NumpyBackend
from tensor_round_service.backends.cuda.backend import CupyBackend
from tensor_round_service.backends.cuda.cupy_device import CupyDevice
from tensor_round_verify.reference import ROUNDINGS

from . import measured

#: Seconds for all of it, and those left over at the end to write it down.
BUDGET, SPARE = 300.0, 15.0
RESULTS = Path(__file__).parent.parent.parent / "bench" / "results"

#: Of float64, whose patterns are too many.
FLOAT64_COUNT = 1 << 26
DTYPES = (
    "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz",
    "float4_e2m1fn", "float64", "float32",
)  # fmt: skip
#: By dtype and direction; None where time ran out.
Mismatches = dict[str, dict[str, int | None]]

T = TypeVar("T")

#: What each ratio must be at least.
KERNEL_TARGET, SHARED_TARGET, PIPELINE_TARGET = 0.9, 0.7, 0.85


@dataclass
class Results:
    """What the file has."""

    device: str
    driver: str
    cupy: str
    date: str
    exhaustive: Mismatches
    kernel_vs_copy: dict[str, dict[str, float]]
    copy_bytes_per_s: float
    cast_vs_copy: dict[str, float]
    cast_mismatches: dict[str, int]
    linear_vs_copy: dict[str, float]
    linear_mismatches: dict[str, int]
    #: None where it could not be measured.
    shm_vs_copy: float | None
    client_shm_vs_copy: float | None
    pipeline_vs_pcie: float | None
    pcie_bytes_per_s: dict[str, float]
    small_request_s: dict[str, float]
    seconds: float


def measure() -> Results:
    """Everything on the first device, what may take longest last."""
    began = time.monotonic()
    deadline = began + BUDGET - SPARE
    device = CupyDevice(0)
    backend = CupyBackend([device], NumpyBackend())
    _say("kernels beside a copy")
    copy_rate, ratios = measured.kernels(device)
    device.trim()
    _say("casts beside a copy, and beside NumPy's")
    cast_ratios, cast_mismatches = measured.casts(backend, device)
    device.trim()
    _say("quantizations likewise")
    linear_ratios, linear_mismatches = measured.quantizations(backend, device)
    device.trim()
    _say("host tensors beside bare copies")
    pipeline, copies = _if_possible(partial(measured.pipeline, backend, device)) or (None, {})
    device.trim()
    _say("requests")
    small = _if_possible(measured.small_requests) or {}
    shared = _if_possible(partial(measured.shared_memory, device))
    _say("every pattern")
    exhaustive = every_pattern(backend, deadline)
    backend.close()
    return Results(
        device=device.name.rpartition(" (")[0],
        driver=_dotted(cupy.cuda.runtime.driverGetVersion()),
        cupy=cupy.__version__,
        date=datetime.datetime.now(datetime.UTC).date().isoformat(),
        exhaustive=exhaustive,
        kernel_vs_copy=ratios,
        copy_bytes_per_s=copy_rate,
        cast_vs_copy=cast_ratios,
        cast_mismatches=cast_mismatches,
        linear_vs_copy=linear_ratios,
        linear_mismatches=linear_mismatches,
        shm_vs_copy=None if shared is None else shared[0] / copy_rate,
        client_shm_vs_copy=None if shared is None else shared[1] / copy_rate,
        pipeline_vs_pcie=pipeline,
        pcie_bytes_per_s=copies,
        small_request_s=small,
        seconds=time.monotonic() - began,
    )


def every_pattern(backend: CupyBackend, deadline: float) -> Mismatches:
    """How many results differ from NumPy's, of all patterns; of float64, of many."""
    found: Mismatches = {dtype: {} for dtype in DTYPES}
    with numpy() as right:
        for dtype in DTYPES:
            for rounding in ROUNDINGS:
                found[dtype][rounding] = sweep(
                    by_backend(backend.round_on_device),
                    right,
                    Task.rounding(dtype, rounding),
                    float64=FLOAT64_COUNT,
                    chunk=DEVICE_CHUNK,
                    deadline=deadline,
                ).mismatches
    return found


def _if_possible(measurement: Callable[[], T]) -> T | None:
    """Its result; a reason on stderr where there is none. The rest is measured all the same."""
    try:
        return measurement()
    except (measured.NotMeasured, AssertionError, OSError) as error:
        _say(f"not measured: {error}")
        return None


def rows(results: Results) -> Iterator[tuple[str, str, str, bool]]:
    """What, how it came out, what it should be, and whether it is."""
    for dtype, by_rounding in results.exhaustive.items():
        for rounding, count in by_rounding.items():
            shown = "not finished in time" if count is None else f"{count} mismatches"
            yield f"bits {dtype} {rounding}", shown, "0", count == 0
    for dtype, ratios in results.kernel_vs_copy.items():
        for rounding, ratio in ratios.items():
            yield (f"kernel {dtype} {rounding}", *_ratio(ratio, KERNEL_TARGET))
    for names, ratio in results.cast_vs_copy.items():
        yield f"cast {names}", f"{ratio:.3f} x", "", True
    for names, count in results.cast_mismatches.items():
        yield f"cast {names}", f"{count} mismatches", "0", count == 0
    for names, ratio in results.linear_vs_copy.items():
        yield names, f"{ratio:.3f} x", "", True
    for names, count in results.linear_mismatches.items():
        yield names, f"{count} mismatches", "0", count == 0
    yield ("shared memory over HTTP", *_ratio(results.shm_vs_copy, SHARED_TARGET))
    if results.client_shm_vs_copy is not None:
        yield "the same by the client", f"{results.client_shm_vs_copy:.3f} x", "", True
    yield ("host tensors, pinned", *_ratio(results.pipeline_vs_pcie, PIPELINE_TARGET))
    for name, seconds in results.small_request_s.items():
        yield f"small request, {name}", f"{seconds * 1e6:.0f} us", "", True


def _ratio(value: float | None, target: float) -> tuple[str, str, bool]:
    if value is None:
        return "not measured", f">= {target} x", False
    return f"{value:.3f} x", f">= {target} x", value >= target


def _dotted(version: int) -> str:
    return f"{version // 1000}.{version % 1000 // 10}"


def _say(what: str) -> None:
    print(f"gpu-check: {what} ...", file=sys.stderr, flush=True)


def main() -> int:
    """Measure, write, print."""
    results = measure()
    slug = re.sub(r"[^a-z0-9]+", "-", results.device.lower()).strip("-")
    RESULTS.mkdir(parents=True, exist_ok=True)
    path = RESULTS / f"gpu-{slug}-{results.date}.json"
    path.write_text(json.dumps(asdict(results), indent=1) + "\n")
    print(f"{results.device}, CUDA {results.driver} driver, CuPy {results.cupy}, {results.date}")
    print(f"device-to-device copy: {results.copy_bytes_per_s / 1e9:.0f} GB/s read and written")
    missed = 0
    for what, value, target, is_met in rows(results):
        missed += not is_met
        print(f"{what:<42} {value:>20}   {target:<8} {'' if is_met else 'MISSED'}")
    print(f"{missed} missed, {results.seconds:.0f} s; written to {path}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
