"""One connection as pure state: bytes in, events out."""

from __future__ import annotations

from collections.abc import Callable

from . import frames
from .blocks import Block, BlockReader, first_part
from .fields import TABLE_BYTES, Field
from .frames import Code, Kind, Setting
from .head import MalformedHead, RequestHead, check_trailers
from .limits import Allowance, ConnectionFault, Event, SessionLimits, StreamFault
from .stream import Credit, S
from .streams import LOW_WINDOW, MOST_UNREAD, Streams

#: Makes a stream of its number, its head, the connection's credit and the peer's first window.
MakeStream = Callable[[int, RequestHead, Credit, int], S]

#: The flags of HEADERS whose block has further parts, or something beside it.
_OF_PARTS = frames.END_HEADERS | frames.PADDED | frames.PRIORITIZED


class Session(Streams[S]):
    """The server's side of one connection. ``clock`` returns seconds."""

    def __init__(
        self, make: MakeStream[S], limits: SessionLimits, clock: Callable[[], float]
    ) -> None:
        super().__init__(limits)
        self._make = make
        self._limits, self._clock = limits, clock
        #: Frames that are used until it is set again. A head counts as several.
        self.frames_left = frames.MAX_NUMBER
        #: Whether frames wait to be used, with all that has come behind them.
        self.is_waiting, self._may_open = False, 0
        #: Since when a frame or header block has come in part; None without one. DATA is none:
        #: whoever waits for it sees to that.
        self.incomplete_since: float | None = None
        self._blocks = BlockReader(limits)
        self._resets = Allowance(*limits.resets, clock)
        self._idle_frames = Allowance(*limits.idle_frames, clock)
        #: Bytes of DATA received, and in both directions at the last idle frame.
        self._received = self._moved = 0
        self._held = b""
        self._has_preface = self._has_settings = False
        #: The first window of streams to the peer.
        self._first_window = frames.DEFAULT_WINDOW
        #: Whether the frame of DATA under way is the last one of its stream.
        self._is_last = False
        #: Bytes of a frame under way that are ignored: padding, or all of it.
        self._ignored_left = 0
        #: The header block under way.
        self._block: Block | None = None

    def receive(self, received: memoryview, may_open: int = frames.MAX_NUMBER) -> None:
        """Use received bytes, up to the head of a stream beyond so many that may be opened.

        They are used no further than :attr:`frames_left` goes, either. The next call, which may
        bring nothing, uses the rest. After a fault all is ignored.
        """
        if self.fault is not None:
            return
        self.is_waiting, self._may_open = False, may_open
        if self._held:
            received, self._held = memoryview(self._held + received), b""
        try:
            used = self._parse(received)
            self._held = bytes(received[used:])
            if self._block is None and (not self._held or self.is_waiting):
                self.incomplete_since = None
            elif self.incomplete_since is None:
                self.incomplete_since = self._clock()
            if self.credit.window <= LOW_WINDOW or self.credit.unread > MOST_UNREAD:
                self._balance()
            if len(self.outbox.control) > self._limits.max_control_bytes:
                raise ConnectionFault(Code.ENHANCE_YOUR_CALM, "the client does not read")
        except ConnectionFault as fault:
            self.fail(fault)

    @property
    def target(self) -> memoryview | None:
        """The memory to receive into; None if the bytes must go through :meth:`receive`."""
        stream = self._data_of
        return None if stream is None else stream.room(self._content_left)

    def advance(self, nbytes: int) -> None:
        """Count bytes that were received into :attr:`target`."""
        stream = self._data_of
        assert stream is not None
        stream.advance(nbytes)
        try:
            self._content_received(stream, nbytes)
        except ConnectionFault as fault:
            self.fail(fault)

    def _parse(self, data: memoryview) -> int:
        """Use the whole frames and all DATA; return where the rest begins."""
        at, end = 0, len(data)
        if not self._has_preface:
            if data[: len(frames.PREFACE)] != frames.PREFACE[:end]:
                raise ConnectionFault(Code.PROTOCOL_ERROR, "the preface is not that of HTTP/2")
            if end < len(frames.PREFACE):
                return 0
            self._has_preface, at = True, len(frames.PREFACE)
        while at < end:
            if self._content_left:
                piece = data[at : at + self._content_left]
                at += len(piece)
                if self._data_of is not None:
                    self._data_of.accept([piece], len(piece))
                self._content_received(self._data_of, len(piece))
            elif self._ignored_left:
                count = min(self._ignored_left, end - at)
                self._ignored_left -= count
                at += count
            elif self.frames_left <= 0:
                self.is_waiting = True
                break
            elif end - at < frames.HEAD_BYTES:
                break
            elif data[at + 3] == Kind.DATA and (used := self._whole_data(data, at, end)) > at:
                at = used
            elif (used := self._frame(data, at, end)) > at:
                self.frames_left -= 1 + (used - at) // self._limits.bytes_a_frame
                at = used
            else:
                break
        return at

    def _whole_data(self, data: memoryview, at: int, end: int) -> int:
        """Use whole frames of DATA at ``at`` whose heads are equal; return their end.

        Most DATA comes so. Whatever else there is, faults too, is left to :meth:`_frame`.
        """
        head = frames.HEAD.unpack_from(data, at)
        high, low, _, flags, number = head
        length = high << 8 | low
        stream, credit = self.streams.get(number), self.credit
        if stream is None or stream.is_reset or stream.is_ended or self._block is not None:
            return at
        if not length or flags > frames.END_STREAM:
            return at
        whole = frames.HEAD_BYTES + length
        most = min((end - at) // whole, min(stream.window, credit.window) // length)
        most = min(most, 1 if flags else self.frames_left)
        pieces: list[memoryview] = []
        for begin in range(at, at + most * whole, whole):
            if frames.HEAD.unpack_from(data, begin) != head:
                break
            pieces.append(data[begin + frames.HEAD_BYTES : begin + whole])
        if pieces:
            nbytes = len(pieces) * length
            at += len(pieces) * whole
            self.frames_left -= len(pieces)
            stream.window -= nbytes
            credit.window -= nbytes
            self._received += nbytes
            self.incomplete_since = None
            stream.accept(pieces, nbytes)
            if flags:
                self._end(stream)
            self._note_arrival(stream)
        return at

    def _frame(self, data: memoryview, at: int, end: int) -> int:
        """Use one frame, of DATA its head alone; return its end, or ``at`` if it is not whole."""
        body = at + frames.HEAD_BYTES
        high, low, kind, flags, number = frames.HEAD.unpack_from(data, at)
        length: int = high << 8 | low
        number &= frames.MAX_NUMBER
        if self._block is not None and (kind != Kind.CONTINUATION or number != self._block.number):
            raise ConnectionFault(Code.PROTOCOL_ERROR, "a header block is not finished")
        if not self._has_settings:
            if kind != Kind.SETTINGS or flags & frames.ACK:
                raise ConnectionFault(Code.PROTOCOL_ERROR, "the first frame must be SETTINGS")
            self._has_settings = True
        if kind == Kind.DATA:
            padding = 0
            if flags & frames.PADDED and length:
                if end == body:
                    return at
                padding = data[body] + 1
            if padding > length or (flags & frames.PADDED and not length):
                raise ConnectionFault(Code.PROTOCOL_ERROR, "the padding is longer than its frame")
            self.incomplete_since = None
            self._data(number, flags, length, padding)
            return body + (padding > 0)
        is_block = (
            kind == Kind.HEADERS
            and flags & _OF_PARTS == frames.END_HEADERS
            and number & 1 > 0
            and 0 < length <= self._limits.max_block_bytes
        )
        if not is_block:
            self._limits.check_frame(kind, number, length)
        if kind not in frames.USED:
            self._spend_idle()
            self.incomplete_since = None
            self._ignored_left = length
            return body
        if end < body + length:
            return at
        if kind == Kind.HEADERS and number > self.last and not self._may_open:
            self.is_waiting = True
            return at
        payload = bytes(data[body : body + length])
        try:
            if is_block:
                self._whole_block(number, payload, ends=bool(flags & frames.END_STREAM))
            else:
                self._control(kind, flags, number, payload)
        except (StreamFault, MalformedHead) as fault:
            self._reset_for(number, fault.code)
        if self._block is None:
            self.incomplete_since = None
        return body + length

    def _data(self, number: int, flags: int, length: int, padding: int) -> None:
        """Begin a frame of DATA. Its padding counts in the windows, too (section 6.1)."""
        stream = self.streams.get(number)
        if stream is None:
            self._check_opened(number)
        self.credit.window -= length
        if self.credit.window < 0:
            raise ConnectionFault(Code.FLOW_CONTROL_ERROR, "more DATA than the connection's window")
        if stream is None or stream.is_reset:
            self._late -= length
            if self._late < 0:
                raise ConnectionFault(Code.STREAM_CLOSED, "DATA on a stream that is over")
            stream = None
        elif stream.is_ended:
            self._reset_for(number, Code.STREAM_CLOSED)
            stream = None
        else:
            stream.window -= length
            if stream.window < 0:
                raise ConnectionFault(Code.FLOW_CONTROL_ERROR, "more DATA than a stream's window")
            if padding:
                self._widen(stream, padding)
        if padding or not (length or flags & frames.END_STREAM):
            self._spend_idle()
        self._data_of, self._is_last = stream, bool(flags & frames.END_STREAM)
        # The byte that tells the padding is passed by the caller.
        self._content_left, self._ignored_left = length - padding, max(0, padding - 1)
        if not self._content_left:
            self._content_received(stream, 0)

    def _content_received(self, stream: S | None, nbytes: int) -> None:
        """Count bytes of the frame of DATA under way, and end it."""
        self._content_left -= nbytes
        if stream is not None and not stream.is_reset:
            self._received += nbytes
            if not self._content_left and self._is_last:
                self._end(stream)
            self._note_arrival(stream)
        if not self._content_left:
            self._data_of = None

    def _note_arrival(self, stream: S) -> None:
        """Note that bytes have come, or the end; once is enough, also behind a head."""
        if not stream.is_reset and not (self.events and self.events[-1][1] is stream):
            self.events.append((Event.ARRIVED, stream))

    def _end(self, stream: S) -> None:
        """Note the end of a request's body."""
        stream.is_ended = True
        if stream.missing:
            stream.release_target()
        if stream.head.length not in (None, stream.received):  # section 8.1.1
            self._reset_for(stream.number, Code.PROTOCOL_ERROR)

    def _control(self, kind: int, flags: int, number: int, payload: bytes) -> None:
        """Use a whole frame that is not DATA."""
        if kind == Kind.HEADERS:
            if not number & 1:
                raise ConnectionFault(Code.PROTOCOL_ERROR, "the number of a stream must be odd")
            block = Block(number, flags, self._limits)
            self._block_part(flags, block, first_part(flags, payload))
        elif kind == Kind.CONTINUATION:
            if self._block is None:
                raise ConnectionFault(Code.PROTOCOL_ERROR, "CONTINUATION without HEADERS")
            self._block_part(flags, self._block, payload)
        elif kind == Kind.WINDOW_UPDATE:
            self._spend_idle()
            self._window_update(number, int.from_bytes(payload, "big") & frames.MAX_WINDOW)
        elif kind == Kind.SETTINGS:
            self._settings(flags, payload)
        elif kind == Kind.RST_STREAM:
            self._check_opened(number)
            self._spend_reset()
            stream = self.streams.get(number)
            if stream is not None and not stream.is_reset:
                self._close(stream)
        elif kind == Kind.PUSH_PROMISE:
            raise ConnectionFault(Code.PROTOCOL_ERROR, "a client does not push")
        else:
            self._spend_idle()
            if kind == Kind.PING and not flags & frames.ACK:
                self.outbox.control += frames.frame(Kind.PING, frames.ACK, 0, payload)
            elif kind == Kind.PRIORITY and len(payload) != frames.PRIORITY_BYTES:
                if number not in self.streams:
                    raise ConnectionFault(Code.FRAME_SIZE_ERROR, "PRIORITY has a wrong length")
                raise StreamFault(Code.FRAME_SIZE_ERROR)  # section 6.3

    def _settings(self, flags: int, payload: bytes) -> None:
        self._spend_idle()
        if flags & frames.ACK:
            if payload:
                raise ConnectionFault(Code.FRAME_SIZE_ERROR, "an acknowledgement has values")
            return
        values = self._limits.read_settings(payload)
        self.outbox.max_frame = values.get(Setting.MAX_FRAME_SIZE, self.outbox.max_frame)
        if values.get(Setting.HEADER_TABLE_SIZE, TABLE_BYTES) < TABLE_BYTES:
            self._table_size = b"\x20"
        first = values.get(Setting.INITIAL_WINDOW_SIZE, self._first_window)
        more, self._first_window = first - self._first_window, first
        for stream in self.streams.values() if more else ():
            stream.send_window += more
            if stream.send_window > frames.MAX_WINDOW:
                raise ConnectionFault(Code.FLOW_CONTROL_ERROR, "a window overflows")
            self.outbox.give_turn(stream)
        self.outbox.control += frames.frame(Kind.SETTINGS, frames.ACK, 0)

    def _window_update(self, number: int, nbytes: int) -> None:
        if number:
            self._check_opened(number)
            stream = self.streams.get(number)
            if stream is None or stream.is_reset:
                return
            if not nbytes:
                raise StreamFault(Code.PROTOCOL_ERROR)
            stream.send_window += nbytes
            if stream.send_window > frames.MAX_WINDOW:
                raise StreamFault(Code.FLOW_CONTROL_ERROR)
            self.outbox.give_turn(stream)
            return
        if not nbytes:
            raise ConnectionFault(Code.PROTOCOL_ERROR, "a window is updated by 0")
        self.outbox.window += nbytes
        if self.outbox.window > frames.MAX_WINDOW:
            raise ConnectionFault(Code.FLOW_CONTROL_ERROR, "a window overflows")

    def _block_part(self, flags: int, block: Block, part: bytes) -> None:
        """Add to the header block under way, and use it once it is whole."""
        if not part:
            self._spend_idle()
        block.add(part)
        if not flags & frames.END_HEADERS:
            self._block = block
            return
        self._block = None
        self._whole_block(block.number, block.content, ends=block.ends)

    def _whole_block(self, number: int, content: bytes, *, ends: bool) -> None:
        """Use a header block: the head of a request, or its trailers."""
        if number > self.last:
            self.last = number
            self._may_open -= 1
            self.frames_left -= self._limits.frames_a_stream
            head = self._blocks.head(content)
            if self.is_draining or (len(self.streams) >= self._limits.streams and self._is_full()):
                raise StreamFault(Code.REFUSED_STREAM)
            stream = self._make(number, head, self.credit, self._first_window)
            self.streams[number] = stream
            self.events.append((Event.OPENED, stream))
            if ends:
                self._end(stream)
            return
        self._trailers(number, self._blocks.fields(content), ends=ends)

    def _trailers(self, number: int, fields: list[Field], *, ends: bool) -> None:
        """Use the fields behind a request's body."""
        stream = self.streams.get(number)
        if stream is None or stream.is_reset:
            if fields and fields[0][0].startswith(b":"):  # the head of a request: section 5.1.1
                lower = "a stream has a lower number than one before"
                raise ConnectionFault(Code.PROTOCOL_ERROR, lower)
            self._spend_idle()  # late trailers
            return
        if stream.is_ended:
            raise StreamFault(Code.STREAM_CLOSED)
        check_trailers(fields)
        if not ends:
            raise StreamFault(Code.PROTOCOL_ERROR)
        self._end(stream)
        self._note_arrival(stream)

    def _is_full(self) -> bool:
        """Whether the peer has as many streams as it may (section 5.1.2), or as are kept for it."""
        limits, kept = self._limits, len(self.streams)
        over = sum(each.is_reset or each.is_finished for each in self.streams.values())
        return kept - over >= limits.streams or kept >= limits.max_streams

    def _check_opened(self, number: int) -> None:
        if number > self.last or not number & 1:
            raise ConnectionFault(Code.PROTOCOL_ERROR, "a frame is on a stream that is not open")

    def _reset_for(self, number: int, code: Code) -> None:
        """Reset a stream for what the peer has done."""
        self.outbox.control += frames.rst_stream(number, code)
        stream = self.streams.get(number)
        if stream is None:
            # It was refused with its head; what it may send is not known to be over.
            self._late += frames.FIRST_WINDOW
        elif not stream.is_reset:
            self._close(stream)
        self._spend_reset()

    def _spend_reset(self) -> None:
        if not self._resets.spend():
            raise ConnectionFault(Code.ENHANCE_YOUR_CALM, "too many streams are reset")
        self._may_open += 1  # another in its place: a flood ends at its allowance, however slowly

    def _spend_idle(self) -> None:
        before, self._moved = self._moved, self._received + self.outbox.sent
        answers, self._answers = self._answers, 0
        self._idle_frames.earn(
            (self._moved - before) / self._limits.bytes_an_idle_frame
            + answers * self._limits.idle_frames_an_answer
        )
        if not self._idle_frames.spend():
            raise ConnectionFault(Code.ENHANCE_YOUR_CALM, "too many empty frames")
