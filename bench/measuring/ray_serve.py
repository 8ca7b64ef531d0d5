"""Ray Serve's proxy before a deployment that rounds, beside the plain service.

    python -m bench.measuring.ray_serve [ROUNDS]

Both round in one process, with the same settings, and are asked in turn, in blocks.
"""

from __future__ import annotations

import os
import statistics
import sys

import numpy as np
import ray
from ray import serve
from starlette.requests import Request
from starlette.responses import Response

import tensor_round as tr

from ..peers.protocols import native_head
from ..peers.targets import KIB, MIB
from .client import Arena
from .fleet import SETTINGS, asked, plain
from .processes import LOGS, free_port

#: Connections, bytes of their tensors, seconds of a block.
LOADS = ((1, KIB, 1.0), (8, KIB, 1.0), (1, 64 * MIB, 2.0))


@serve.deployment(max_ongoing_requests=64)
class Rounding:
    """Rounds what it is sent, as float32."""

    def __init__(self) -> None:
        self._client = tr.Client("local:")

    async def __call__(self, request: Request) -> Response:
        """The rounded body."""
        body = bytearray(await request.body())
        x = np.frombuffer(body, "<f4")
        self._client.round(x, out=x)
        return Response(bytes(body), media_type="application/octet-stream")


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 9
    os.environ.update(SETTINGS)
    LOGS.mkdir(parents=True, exist_ok=True)
    port = free_port()
    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False)
    try:
        serve.start(http_options=serve.HTTPOptions(host="127.0.0.1", port=port))
        serve.run(Rounding.bind())
        with plain("127.0.0.1") as beside:
            table({"plain": beside, "Ray Serve": f"127.0.0.1:{port}"}, rounds)
    finally:
        serve.shutdown()
        ray.shutdown()


def table(addresses: dict[str, str], rounds: int) -> None:
    """Medians of all rounds: requests a second, and milliseconds of a request."""
    arena = Arena(64 * MIB)
    print("| connections | tensor | plain | Ray Serve | ratio |\n|---|---|---|---|---|", flush=True)
    for connections, nbytes, seconds in LOADS:
        exchanges = [(bytes(arena.request(native_head(nbytes), nbytes)), b"")]
        rates: dict[str, list[float]] = {name: [] for name in addresses}
        for turn in range(rounds):
            # Each is first as often as the other.
            for name in sorted(addresses, reverse=turn % 2 == 1):
                rates[name].append(asked(addresses[name], exchanges, connections, seconds).rate)
        ratio = statistics.median(
            b / a for a, b in zip(rates["plain"], rates["Ray Serve"], strict=True)
        )
        size = f"{nbytes // MIB} MiB" if nbytes >= MIB else f"{nbytes // KIB} KiB"
        cells = [
            f"{rate:,.0f}/s, {connections / rate * 1e3:,.2f} ms"
            for rate in map(statistics.median, rates.values())
        ]
        print(f"| {connections} | {size} | {' | '.join(cells)} | {ratio:.1%} |", flush=True)


if __name__ == "__main__":
    main()
