"""One script played to a service: what is sent, and what comes back judged."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from dataclasses import dataclass, field

from .exchange import After, Answer, Request
from .plugs import Plug, plugged
from .scripts import End, Script, Wait, Write

#: Seconds in which an answer that is owed comes, and a connection that is over ends.
PATIENCE = 10.0
_MOST_AT_ONCE = 1 << 18
_SLOW_BUFFER = 16 << 10
#: How long a slow taker is slow: what the kernel has of an answer, the service counts as taken,
#: and then it lets the connection be idle for seconds alone.
_SLOW_SECONDS = 1.0


class Fault(Exception):
    """A rule that was broken: which kind of rule, and how."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


@dataclass
class Reader:
    """The answers on one connection, in order; each is judged as soon as it is whole."""

    requests: list[Request]
    statuses: list[int] = field(default_factory=list)
    #: The request that comes next has been told to go on.
    told: bool = False
    #: Nothing may follow.
    closed: bool = False
    #: The last request is not sent whole, and may be refused for that.
    lenient: bool = False
    #: One side ends with the last request, so the last answer may say that nothing follows.
    one_sided: bool = False
    _waiting: bytearray = field(default_factory=bytearray)

    @property
    def answered(self) -> int:
        return len(self.statuses)

    @property
    def owed(self) -> int:
        """How many answers are still to come."""
        if self.closed:
            return 0
        return sum(not request.optional for request in self.requests[self.answered :])

    @property
    def is_within(self) -> bool:
        """Whether an answer has begun and not ended."""
        return bool(self._waiting)

    def feed(self, data: bytes) -> None:
        """Read on."""
        self._waiting += data
        while self._waiting:
            if self.closed or self.answered == len(self.requests):
                raise Fault("extra", f"more than was asked for: {bytes(self._waiting[:300])!r}")
            if not self._one():
                return

    def _one(self) -> bool:
        end = self._waiting.find(b"\r\n\r\n")
        if end < 0:
            if not b"HTTP/1.1 ".startswith(self._waiting[:9]):
                raise Fault("no HTTP", f"no answer: {bytes(self._waiting[:300])!r}")
            return False
        request = self.requests[self.answered]
        status, fields = _head(bytes(self._waiting[:end]))
        if status < 200:
            if status != 100 or not request.expects or self.told:
                raise Fault("interim", f"{self._which()}: status {status} between")
            self.told = True
            del self._waiting[: end + 4]
            return True
        content = self._content(request, status, fields, end + 4)
        if content is None:
            return False
        self._judge(request, Answer(status, fields, content))
        return True

    def _content(
        self, request: Request, status: int, fields: dict[str, str], begin: int
    ) -> bytes | None:
        """The content, taken off what waits, if it is whole."""
        if "transfer-encoding" in fields or "content-length" not in fields:
            raise Fault("no HTTP", f"{self._which()}: no length: {status} {fields}")
        length = 0 if request.method == "HEAD" else int(fields["content-length"])
        if len(self._waiting) < begin + length:
            return None
        content = bytes(self._waiting[begin : begin + length])
        del self._waiting[: begin + length]
        return content

    def _judge(self, request: Request, answer: Answer) -> None:
        wrong = request.complaint(answer)
        if wrong and not (self.lenient and answer.status in (400, 408, 503)):
            raise Fault("wrong", f"{self._which()}: {wrong}; {answer.brief()}")
        if answer.closes and request.after is After.KEPT and not self._may_end():
            raise Fault("given up", f"{self._which()}: the last answer; {answer.brief()}")
        self.statuses.append(answer.status)
        self.told = False
        self.closed = answer.closes or request.after is After.CLOSED

    def _may_end(self) -> bool:
        """Whether a connection that is to be kept may end with the next answer all the same."""
        following = self.requests[self.answered + 1 :]
        return self.lenient or (following[0].hopeless if following else self.one_sided)

    def _which(self) -> str:
        request = self.requests[self.answered]
        return f"request {self.answered + 1} of {len(self.requests)}, {request.name}"

    def missing(self) -> str:
        """Where the answers stopped."""
        return f"{self._which()} (the {'rest of its' if self.is_within else 'whole'} answer)"


def _head(text: bytes) -> tuple[int, dict[str, str]]:
    first, *lines = text.decode("latin-1").split("\r\n")
    fields: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(":")
        name = name.lower()
        if name in fields:
            raise Fault("no HTTP", f"the field {name} twice")
        fields[name] = value.strip()
    if not first.startswith("HTTP/1.1 ") or not first[9:12].isdigit():
        raise Fault("no HTTP", f"no status line: {first[:100]!r}")
    return int(first[9:12]), fields


class Talk:
    """A script on its connection."""

    def __init__(self, script: Script, plug: Plug) -> None:
        self._script, self._plug = script, plug
        self.reader = Reader(
            script.requests,
            lenient=not script.end.owes_answers,
            one_sided=script.end is End.ONE_SIDE,
        )
        self._news = asyncio.Event()
        self._sent = self._over = False
        self._moved = 0.0

    async def play(self) -> None:
        """Raise :class:`Fault` where the service breaks a rule."""
        self._moved = asyncio.get_running_loop().time()
        sending = asyncio.create_task(self._send())
        try:
            if self._script.end in (End.HANG_UP, End.RESET):
                await self._listen_until(sending)
            else:
                await self._listen()
        finally:
            sending.cancel()
            with contextlib.suppress(asyncio.CancelledError, OSError, ssl.SSLError):
                await sending
            self._plug.close(reset=self._script.end is End.RESET)

    async def _listen_until(self, sending: asyncio.Task[None]) -> None:
        listening = asyncio.create_task(self._listen())
        try:
            await asyncio.wait({sending, listening}, return_when=asyncio.FIRST_COMPLETED)
            if listening.done():
                await listening
        finally:
            listening.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await listening

    async def _listen(self) -> None:
        """To the end of the connection."""
        most, pause = self._script.takes
        is_slow = pause > 0
        began = self._moved
        while data := await self._take(most if is_slow else _MOST_AT_ONCE):
            self.reader.feed(data)
            self._news.set()
            if is_slow:
                is_slow = self._moved < began + _SLOW_SECONDS
                await asyncio.sleep(pause)
        self._over = True
        self._news.set()
        if self._script.end.owes_answers and self.reader.owed:
            raise Fault("cut off", f"the connection ended before {self.reader.missing()}")

    async def _take(self, most: int) -> bytes:
        """What comes, as long as it may take."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                async with asyncio.timeout_at(self._moved + PATIENCE):
                    data = await self._plug.take(most)
                self._moved = loop.time()
                return data
            except TimeoutError:
                if loop.time() < self._moved + PATIENCE:
                    continue  # something was sent meanwhile
            except ssl.SSLError as error:
                raise Fault("TLS", f"{error}") from None
            except OSError:
                return b""
            if (self._script.end.owes_answers or not self._sent) and self.reader.owed:
                missing = self.reader.missing()
                raise Fault("unanswered", f"nothing came for {PATIENCE:.0f} s of {missing}")
            raise Fault("not ended", f"the connection did not end within {PATIENCE:.0f} s")

    async def _send(self) -> None:
        for step in self._script.steps:
            if isinstance(step, Write):
                await self._write(step)
            else:
                await self._wait(step)
        self._sent = True
        await self._end()

    async def _write(self, step: Write) -> None:
        with contextlib.suppress(OSError):  # what was answered is read in any case
            await self._plug.send(step.data)
        self._moved = asyncio.get_running_loop().time()
        await asyncio.sleep(step.pause)

    async def _wait(self, step: Wait) -> None:
        reader = self.reader
        while reader.answered < step.answers + step.or_told and not (self._over or reader.closed):
            if step.or_told and reader.answered == step.answers and reader.told:
                return
            self._news.clear()
            await self._news.wait()

    async def _end(self) -> None:
        end, number = self._script.end, self._script.number
        if end is End.ONE_SIDE:
            await self._plug.end_sending()
        elif end is End.WITHIN:
            await self._plug.end_sending(politely=number % 4 < 2)
        elif end is End.ONE_SIDE_LATER:
            await self._wait(Wait(len(self._script.requests)))
            await self._plug.end_sending()
        elif end in (End.HANG_UP, End.RESET):
            await asyncio.sleep((0.0, 0.001, 0.02)[number % 3])


async def play(script: Script, port: int, context: ssl.SSLContext | None) -> list[int]:
    """The statuses of the answers; raises :class:`Fault`."""
    slow = script.takes[1] > 0
    plug = await plugged(port, context, _SLOW_BUFFER if slow else None)
    talk = Talk(script, plug)
    await talk.play()
    return talk.reader.statuses
