"""SIGTERM under load, and amid calls of gRPC: each gets its answer, or an error that callers retry.

The signal comes when one call of gRPC has been sent up to any of its bytes. The others are in any
state: begun, half sent, waiting, half read, on new connections and on used ones.
"""

from __future__ import annotations

import asyncio
import random
import signal
import socket
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, partial

import hpack

from support.cases.array_cases import DrawnTensor
from support.http.callers import Call, interrupted
from support.http.grpc_client import SERVICE, Answer, framed, infer_request, made
from support.http.http2_frames import HELLO, Frame, block, call_fields, data, split
from support.http.http2_site import WIDE
from support.services.server import Service, forked
from support.services.workers import replaced_after
from tensor_round_service.net.http2 import frames
from tensor_round_service.net.http2.frames import (
    ACK,
    DEFAULT_WINDOW,
    END_HEADERS,
    MAX_NUMBER,
    MIN_FRAME_BYTES,
    Code,
    Kind,
    Setting,
)
from tensor_round_service.net.http2.limits import SessionLimits

from .metrics import Report

KILLS = 10
#: Seconds in which there must be another worker.
REPLACED = 3.0


def shutdown(rounds: float) -> Report:
    """So many shutdowns, of one process and of two workers in turn; then workers are killed."""
    calls: list[Call] = []
    under_way = 0
    for turn in range(int(rounds)):
        # Leaving asserts the exit code.
        with Service("--workers", str(1 + turn % 2)) as service:
            begun, interrupted_calls = interrupted(service, 0.3 + 0.037 * (turn % 10))
        calls += begun
        under_way += interrupted_calls
    lost = [call.fault for call in calls if call.fault]
    seconds = _replacements(KILLS)
    report = Report(
        f"SIGTERM {rounds:g} times: {len(calls):,} requests begun before it, {under_way} under "
        f"way, {len(lost)} lost; a killed worker was replaced {len(seconds)} times, "
        f"after {max(seconds):.1f} s at the most",
        [f"lost: {fault}" for fault in lost],
    )
    report.expect("no request was under way that could have been lost", under_way >= rounds)
    report.expect("a worker was not replaced in time", max(seconds) < REPLACED)
    return report


def _replacements(kills: int) -> list[float]:
    with Service("--workers", "2") as service:
        seconds = []
        for turn in range(kills):
            while service.counted("serves") < 2 + turn:
                time.sleep(0.01)
            seconds.append(replaced_after(service))
        return seconds


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

#: What became of calls, and how: ``answered``, of those ``late`` after the signal, ``told`` that
#: they were not served, and ``lost``.
Fates = Counter[tuple[str, str]]


class _Quick(Service):
    """A service that starts soon, without compiled kernels."""

    launch = staticmethod(forked)


def stops_grpc(stops: float, seed: int) -> Report:
    """So many services, each stopped once."""
    fates = Fates()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for each in pool.map(partial(_stopped, seed), range(int(stops))):
            fates.update(each)
    told, lost = (
        {how: n for (what, how), n in fates.items() if what == w} for w in ("told", "lost")
    )
    late, tried = fates["late", ""], sum(told.values())
    by = ", ".join(f"{count:,} by {how}" for how, count in told.items())
    report = Report(
        f"SIGTERM {stops:g} times (seed {seed}): {fates['answered', '']:,} calls answered, "
        f"{late:,} of them after it, {tried:,} told to try again ({by}), "
        f"{sum(lost.values())} lost",
        [f"lost: {count} x {how}" for how, count in lost.items()],
    )
    report.expect("a stop met no call", late + tried >= stops)
    return report


def _stopped(seed: int, turn: int) -> Fates:
    """One service, and what became of the calls of all its callers."""
    chance = random.Random(f"{seed} {turn}")
    workers = 1 if chance.randrange(ALONE) else 2
    fates = Fates()
    with _Quick("--workers", str(workers)) as service:
        asyncio.run(_call(service, chance, fates))
        if code := service.process.wait(SECONDS):
            fates["lost", f"exit code {code}"] += 1
    for line in service.log:
        if not line.startswith("INFO"):
            fates["lost", line.rstrip()] += 1
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
        fates["lost", "a call that does not end"] += 1


#: Bytes of a tensor, and how many different ones there are of each.
_SIZES = (1 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20)
_VARIANTS = 3
_FRAMES = (1000, MIN_FRAME_BYTES, 1 << 16)
_BLOCKS = {
    method: block(call_fields(f"/{SERVICE}/{method}"))
    for method in ("ModelInfer", "ModelStreamInfer")
}
_UNAVAILABLE = "14"


class Moment:
    """When the signal comes: as a call of all has been sent up to one of its bytes."""

    def __init__(self, chance: random.Random, calls: int, signal: Callable[[], None]) -> None:
        self._before = chance.randrange(calls)
        # Half of them within the head, or soon behind it.
        self._share = chance.random() ** chance.choice((1, 8))
        self._signal = signal
        #: Seconds until the rest of that call is sent.
        self.pause = chance.choice((0.0, 0.01, 0.2, 0.4))
        self.has_come = False

    def begin(self, nbytes: int) -> int | None:
        """Note a call of about so many bytes; return the one at which the signal comes."""
        self._before -= 1
        return int(self._share * nbytes) if self._before == -1 else None

    def come(self) -> None:
        """Send the signal."""
        if not self.has_come:
            self.has_come = True
            self._signal()


@dataclass(frozen=True)
class Style:
    """How a caller uses its connections."""

    #: Calls at a time, and of a connection.
    at_once: int
    calls: int
    sizes: tuple[int, ...]
    #: Whether its windows let out all at once.
    is_wide: bool
    #: Whether it reads little, and late.
    is_slow: bool
    #: Whether it begins no call after the first GOAWAY.
    is_polite: bool

    @classmethod
    def drawn(cls, chance: random.Random, *, is_new: bool) -> Style:
        """One of a caller that keeps its connection, or of one that takes a new one each time."""
        is_slow = chance.random() < 0.25
        return cls(
            at_once=1 if is_new else chance.choice((1, 2, 6)),
            calls=1 if is_new else 1000,
            sizes=_SIZES[:3] if is_slow else _SIZES,
            is_wide=chance.random() < 0.5,
            is_slow=is_slow,
            is_polite=chance.random() < 0.5,
        )


@cache
def _exchange(nbytes: int, variant: int) -> tuple[bytes, bytes]:
    """A request with its prefix, and the bytes of its result."""
    x = DrawnTensor.of("float32", "ties_to_even", nbytes // 4, 997 * variant, finite=True)
    tensor = {"name": "X", "datatype": "FP32", "shape": [nbytes // 4]}
    return framed(infer_request({"inputs": [tensor]}, x.payload)), x.result


@dataclass
class _Call:
    """One call: its messages, their results, and what has come."""

    exchanges: list[tuple[bytes, bytes]]
    is_stream: bool
    number: int = 0
    answer: Answer = field(default_factory=Answer)
    #: The code with which its stream was reset.
    code: int | None = None
    #: Bytes until the signal.
    left: int | None = None

    @property
    def nbytes(self) -> int:
        """About as many as are sent."""
        return sum(len(request) for request, _ in self.exchanges) + 150

    def is_right(self) -> bool:
        """Whether all of the answer has come, and every bit of it is right."""
        if self.answer.fields.get("grpc-status") != "0" or not self.answer.is_ended:
            return False
        return [_result(each, self.is_stream) for each in self.answer.messages] == [
            [result] for _, result in self.exchanges
        ]


def _result(message: bytes, is_stream: bool) -> list[bytes]:
    told = made("ModelStreamInferResponse" if is_stream else "ModelInferResponse")
    told.ParseFromString(message)
    return [*(told.infer_response if is_stream else told).raw_output_contents]


class Connection:
    """One connection, and its calls."""

    def __init__(
        self,
        streams: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        style: Style,
        moment: Moment,
        chance: random.Random,
        fates: Fates,
    ) -> None:
        self._reader, self._writer = streams
        self._style = style
        self._moment = moment
        self._chance = chance
        self._fates = fates
        self._decoder = hpack.Decoder()
        self._calls: dict[int, _Call] = {}
        self._begun = 0
        #: What the service takes, of all streams (0) and of each, and in a frame.
        self._room = {0: DEFAULT_WINDOW}
        self._first_room = DEFAULT_WINDOW
        self._max_frame = MIN_FRAME_BYTES
        #: The last stream that is served; the greatest number of all before the service says so.
        self._last = MAX_NUMBER
        self._has_goaway = False
        self._is_over = self._is_left = False
        #: A frame is sent in pieces, and none comes between them.
        self._sending = asyncio.Lock()
        self._changed = asyncio.Event()

    async def run(self) -> None:
        """Call until no more may be begun, and what was is over."""
        reading = asyncio.create_task(self._read())
        with suppress(ConnectionError):
            async with self._sending:
                await self._write(HELLO + (WIDE if self._style.is_wide else b""))
        await asyncio.gather(*(self._call_on() for _ in range(self._style.at_once)))
        self._is_left = True
        self._writer.close()
        await reading

    async def _call_on(self) -> None:
        while self._may_begin():
            await self._call()

    def _may_begin(self) -> bool:
        is_told = self._has_goaway if self._style.is_polite else self._last < MAX_NUMBER
        return not (self._is_over or is_told) and self._begun < self._style.calls

    async def _call(self) -> None:
        chance = self._chance
        is_stream = chance.random() < 0.3
        call = _Call(
            [
                _exchange(chance.choice(self._style.sizes), chance.randrange(_VARIANTS))
                for _ in range(chance.randint(1, 4) if is_stream else 1)
            ],
            is_stream,
        )
        call.left = self._moment.begin(call.nbytes)
        self._begun += 1
        try:
            await self._send(call)
            await self._until(lambda: self._is_settled(call))
        except ConnectionError:
            await self._until(lambda: self._is_over)
        finally:
            if call.left is not None:
                self._moment.come()
        if call.number:
            self._judge(call)

    # Sending.

    async def _send(self, call: _Call) -> None:
        chance = self._chance
        async with self._sending:
            if self._is_over or self._last < MAX_NUMBER:
                return
            call.number = 2 * len(self._calls) + 1
            self._calls[call.number] = call
            self._room[call.number] = self._first_room
            head = _BLOCKS["ModelStreamInfer" if call.is_stream else "ModelInfer"]
            await self._write(frames.frame(Kind.HEADERS, END_HEADERS, call.number, head), call)
        ends_with_bytes = chance.random() < 0.5
        for turn, (request, _) in enumerate(call.exchanges, 1):
            at = 0
            while at < len(request):
                await self._until(lambda: self._is_settled(call) or self._room_of(call) > 0)
                if self._is_settled(call):
                    return
                most = min(chance.choice(_FRAMES), self._max_frame, self._room_of(call))
                piece = request[at : at + most]
                at += len(piece)
                for number in (0, call.number):
                    self._room[number] -= len(piece)
                is_last = turn == len(call.exchanges) and at == len(request) and ends_with_bytes
                async with self._sending:
                    await self._write(data(call.number, piece, ends=is_last), call)
                if chance.random() < 0.02:
                    await asyncio.sleep(chance.choice((0.01, 0.1, 0.5)))
            if call.is_stream and chance.random() < 0.5:
                await self._until(
                    lambda turn=turn: self._is_settled(call) or len(call.answer.messages) >= turn
                )
        if not ends_with_bytes:
            async with self._sending:
                await self._write(data(call.number, ends=True), call)

    def _room_of(self, call: _Call) -> int:
        return min(self._room[0], self._room[call.number])

    async def _write(self, content: bytes, call: _Call | None = None) -> None:
        """Send a frame, in two pieces now and then, or if the signal comes within."""
        if call is not None and call.left is not None:
            cut, call.left = call.left, call.left - len(content)
            if cut < len(content):
                call.left = None
                await self._drained(content[:cut])
                await asyncio.sleep(self._chance.choice((0, 0.01)))
                self._moment.come()
                await asyncio.sleep(self._moment.pause)
                content = content[cut:]
        elif self._chance.random() < 0.05:
            cut = self._chance.randrange(len(content))
            await self._drained(content[:cut])
            await asyncio.sleep(self._chance.uniform(0, 0.02))
            content = content[cut:]
        await self._drained(content)

    async def _drained(self, content: bytes) -> None:
        self._writer.write(content)
        await self._writer.drain()

    # Receiving.

    async def _until(self, is_so: Callable[[], bool]) -> None:
        while not is_so():
            await self._changed.wait()

    async def _read(self) -> None:
        rest = b""
        with suppress(ConnectionError):
            while received := await self._reader.read(1 << 14 if self._style.is_slow else 1 << 18):
                found, rest = split(rest + received)
                for frame in found:
                    await self._use(frame)
                self._tell()
                if self._style.is_slow:
                    await asyncio.sleep(self._chance.uniform(0, 0.03))
        self._is_over = True
        self._tell()
        if not (self._is_left or self._has_goaway):
            self._fates["lost", "a connection that ended without GOAWAY"] += 1

    def _tell(self) -> None:
        self._changed.set()
        self._changed.clear()

    async def _use(self, frame: Frame) -> None:
        call = self._calls.get(frame.stream, _Call([], False))
        match frame.kind:
            case Kind.SETTINGS if not frame.flags & ACK:
                values = SessionLimits().read_settings(frame.payload)
                more = values[Setting.INITIAL_WINDOW_SIZE] - self._first_room
                self._first_room += more
                self._room = {n: room + more * (n > 0) for n, room in self._room.items()}
                self._max_frame = values[Setting.MAX_FRAME_SIZE]
                await self._reply(frames.frame(Kind.SETTINGS, ACK, 0))
            case Kind.WINDOW_UPDATE:
                self._room[frame.stream] += int.from_bytes(frame.payload)
            case Kind.HEADERS:
                call.answer.fields |= dict(self._decoder.decode(frame.payload))
            case Kind.DATA:
                call.answer.content += frame.payload
                if frame.payload and not self._style.is_wide:
                    update = frames.window_update(0, len(frame.payload))
                    if not frame.ends:
                        update += frames.window_update(frame.stream, len(frame.payload))
                    await self._reply(update)
            case Kind.RST_STREAM:
                call.code = frame.code
            case Kind.GOAWAY:
                last = int.from_bytes(frame.payload[:4])
                if last > self._last or frame.code != Code.NO_ERROR:
                    self._fates["lost", f"GOAWAY {last}, {frame.payload[4:]!r}"] += 1
                self._has_goaway, self._last = True, last
        call.answer.is_ended = call.answer.is_ended or frame.ends

    async def _reply(self, content: bytes) -> None:
        """Send what the protocol has a peer send; none waits for it once the service has gone."""
        with suppress(ConnectionError):
            async with self._sending:
                await self._drained(content)

    # Judging.

    def _is_settled(self, call: _Call) -> bool:
        is_told = call.answer.is_ended or call.code is not None or call.number > self._last
        return self._is_over or is_told

    def _judge(self, call: _Call) -> None:
        fates, fields = self._fates, call.answer.fields
        is_right = call.is_right()
        if is_right and call.number <= self._last:
            fates["answered", ""] += 1
            fates["late", ""] += self._moment.has_come
        elif call.code == Code.REFUSED_STREAM and not fields:
            fates["told", "REFUSED_STREAM"] += 1
        elif call.number > self._last and not fields:
            fates["told", "GOAWAY"] += 1
        elif fields.get("grpc-status") == _UNAVAILABLE and "grpc-retry-pushback-ms" in fields:
            fates["told", "UNAVAILABLE"] += 1
        else:
            said = {key: text for key, text in fields.items() if key.startswith("grpc-")}
            how = f"{said}, code {call.code}, last {self._last}, {len(call.answer.content)} bytes"
            fates["lost", f"{'a right answer' if is_right else 'no answer'}: {how}"] += 1
