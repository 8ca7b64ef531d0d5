"""SIGTERM amid calls of gRPC: each is answered, or its caller is told that it was not served.

The signal comes when one call has been sent up to any of its bytes. The others are in any state:
begun, half sent, waiting, half read, on new connections and on used ones.
"""

from __future__ import annotations

import asyncio
import random
import signal
import socket
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from support.services.server import Service, forked

from .grpc_callers import Connection, Fates, Moment, Style
from .report import Report

#: Services at a time: most of the time of a stop is waiting.
AT_ONCE = 4
#: Of so many services one has workers.
ALONE = 8
#: Among so many calls is the one that the signal meets.
CALLS = 60
#: By which all is over, however busy the machine is.
SECONDS = 60
#: Seconds until a caller knows that it is not let in: on this machine a connection takes none.
TURNED_AWAY = 0.5
#: The receive buffer of a caller that reads slowly.
_LITTLE = 16 << 10


class _Quick(Service):
    """A service that starts soon, without compiled kernels."""

    launch = staticmethod(forked)


def run(stops: float, seed: int) -> Report:
    """So many services, each stopped once."""
    fates = Fates()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for each in pool.map(partial(_stopped, seed), range(int(stops))):
            fates += each
    told = ", ".join(f"{count:,} by {how}" for how, count in fates.told.most_common())
    report = Report(
        f"SIGTERM {stops:g} times (seed {seed}): {fates.answered:,} calls answered, "
        f"{fates.late:,} of them after it, {fates.told.total():,} told to try again ({told}), "
        f"{fates.lost.total()} lost",
        [f"lost: {count} x {how}" for how, count in fates.lost.items()],
    )
    report.expect("a stop met no call", fates.late + fates.told.total() >= stops)
    return report


def _stopped(seed: int, turn: int) -> Fates:
    """One service, and what became of the calls of all its callers."""
    chance = random.Random(f"{seed} {turn}")
    workers = 1 if chance.randrange(ALONE) else 2
    fates = Fates()
    with _Quick("--workers", str(workers)) as service:
        asyncio.run(_call(service, chance, fates))
        if code := service.process.wait(SECONDS):
            fates.lost[f"exit code {code}"] += 1
    for line in service.log:
        if not line.startswith("INFO"):
            fates.lost[line.rstrip()] += 1
    return fates


async def _call(service: Service, chance: random.Random, fates: Fates) -> None:
    """Call until the service has ended."""
    loop = asyncio.get_running_loop()
    moment = Moment(chance, CALLS, partial(service.process.send_signal, signal.SIGTERM))

    async def caller(*, is_new: bool) -> None:
        style = Style.drawn(chance, is_new=is_new)
        while service.process.poll() is None:
            sock = socket.socket()
            if style.is_slow:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _LITTLE)
            sock.setblocking(False)
            try:
                async with asyncio.timeout(TURNED_AWAY):
                    await loop.sock_connect(sock, (service.host, service.port))
            except OSError:
                sock.close()
                return
            streams = await asyncio.open_connection(sock=sock, limit=_LITTLE)
            await Connection(streams, style, moment, chance, fates).run()

    kinds = [False] * chance.randint(1, 4) + [True] * chance.randint(1, 2)
    try:
        async with asyncio.timeout(SECONDS):
            await asyncio.gather(*(caller(is_new=is_new) for is_new in kinds))
    except TimeoutError:
        moment.come()
        fates.lost["a call that does not end"] += 1
