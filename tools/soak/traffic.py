"""Mixed traffic for a while: some callers in order, one bad, some rude."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable

from support.services.server import Service

from . import bad, good, rude, sdk
from .lane import Lane
from .ledger import Ledger

Exchange = Callable[[Lane], None]
Way = Callable[[Lane, str, Exchange], None]

GOOD: dict[str, Exchange] = {
    "octets": good.octets,
    "octets chunked": good.chunked,
    "octets gzip, deflate": good.packed,
    "octets with digests": good.digested,
    "octets strided": good.strided,
    "npy": good.npy,
    "json": good.text,
    "inference": good.inference,
    "inference json": good.inference_text,
    "client": sdk.client,
    "client async": sdk.async_client,
    "client tiled": sdk.tiled_client,
}
RUDE: dict[str, Exchange] = {
    "slow sender": rude.slow_sender,
    "slow taker": rude.slow_taker,
    "stuck taker": rude.stuck_taker,
    "leaver": rude.leaver,
    "no HTTP": rude.stranger,
}
BAD: dict[str, Exchange] = {**bad.BAD}
#: Those that are not whole are answered after a deadline, so they have a lane of their own.
SPOILT: dict[str, Exchange] = {"spoilt": bad.spoilt}
#: How often one has its turn beside the others; slow ones take seconds each.
_OFTEN = {"leaver": 20, "no HTTP": 10, "slow taker": 5}


class Traffic:
    """Lanes of callers, each a thread with its own chances; a seed makes the same again."""

    def __init__(self, service: Service, ledger: Ledger, seed: int) -> None:
        self._service = service
        self._ledger = ledger
        self._end = threading.Event()
        # Of this process's two cores callers and checks take one: three lanes keep it busy.
        ways = [(_order, GOOD)] * 3 + [(_rudeness, RUDE)] * 3
        ways += [(_mischief, BAD), (_mischief, SPOILT)]
        self._lanes = [
            threading.Thread(target=self._run, args=(*way, random.Random(f"{seed} {turn}")))
            for turn, way in enumerate(ways)
        ]

    def run(self, seconds: float, interval: float, look: Callable[[], None]) -> None:
        """Keep it up for so long; ``look`` every now and then."""
        for lane in self._lanes:
            lane.start()
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            time.sleep(min(interval, left))
            look()
        self._end.set()
        for lane in self._lanes:
            lane.join()

    def _run(self, way: Way, kinds: dict[str, Exchange], chance: random.Random) -> None:
        names = [name for name in kinds for _ in range(_OFTEN.get(name, 1))]
        with Lane(self._service, self._ledger, chance) as lane:
            while True:
                # Each has its turn before one has its second.
                chance.shuffle(names)
                for name in names:
                    way(lane, name, kinds[name])
                    if self._end.is_set():
                        return


def _order(lane: Lane, kind: str, exchange: Exchange) -> None:
    """One good request."""
    began = time.monotonic()
    with lane.ledger.entry(kind):
        exchange(lane)
        lane.ledger.took(kind, time.monotonic() - began)


def _mischief(lane: Lane, kind: str, exchange: Exchange) -> None:
    """One bad request, and a good one after it, on the same connection if it is still there."""
    with lane.ledger.entry(f"bad: {kind}"):
        exchange(lane)
    with lane.ledger.entry("after a bad one", kind):
        lane.check_service()


def _rudeness(lane: Lane, kind: str, exchange: Exchange) -> None:
    """One rude caller, and a good one after it."""
    with lane.ledger.entry(f"rude: {kind}"):
        exchange(lane)
    with lane.ledger.entry("after a bad one", kind):
        lane.hang_up()  # the last one may have been left idle for too long
        lane.check_service()
