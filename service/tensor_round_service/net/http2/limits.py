"""The bounds of a peer, and what happens when it breaks one.

Each way in which a peer can have the service work or keep memory for nothing has a bound here.
The precedents are nghttp2's, and RFC 9113, section 10.5.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from . import frames
from .frames import SETTING, Code, Kind, Setting

_ON_STREAMS = frozenset({Kind.HEADERS, Kind.PRIORITY, Kind.RST_STREAM, Kind.CONTINUATION})
_ON_CONNECTIONS = frozenset({Kind.SETTINGS, Kind.PING, Kind.GOAWAY})
_OF_BLOCKS = frozenset({Kind.HEADERS, Kind.CONTINUATION})


@dataclass(frozen=True, slots=True)
class SessionLimits:
    """Limits of a peer; allowances are (at once, a second)."""

    #: Streams that a peer may have open at a time, those included that it has reset and whose
    #: handlers have not ended. A further one is refused.
    streams: int = 100
    max_streams: int = 128
    #: A header block as it is sent (nghttp2: 64 KiB), and the frames that continue it (nghttp2: 8).
    max_block_bytes: int = 64 << 10
    max_continuations: int = 8
    #: The list of fields in a block, each with 32 bytes more, and their number. A request beyond is
    #: refused alone.
    max_list_bytes: int = 16 << 10
    max_fields: int = 100
    #: Settings in one frame (nghttp2: 32).
    max_settings: int = 32
    #: Streams that the peer resets, or makes this side reset (nghttp2: 1000 and 33). A client may
    #: give up all its calls at once, and those of an overloaded service all the time.
    resets: tuple[int, float] = (500, 100)
    #: Frames that bring nothing. Sent and received DATA add to it: who reads and writes much
    #: may update its windows often. The updates for what the systems between hold may come after
    #: all was sent: two for each 16 KiB of 10 MiB. The head of a response adds to it, and so does
    #: each message, however small: gRPC's clients update both windows for it, and may send a PING.
    idle_frames: tuple[int, float] = (2000, 100)
    bytes_an_idle_frame: int = 1 << 10
    idle_frames_an_answer: int = 3
    #: What a frame counts for in a turn, beside 1: decoding that many bytes of a header block takes
    #: as long as a small frame, and a stream that is opened, and maybe reset, as long as so many.
    bytes_a_frame: int = 16
    frames_a_stream: int = 8
    #: Bytes of acknowledgements and resets that a peer may leave unread.
    max_control_bytes: int = 128 << 10

    def opening(self) -> bytes:
        """What this side says first: its settings, and the window of the connection."""
        values = {
            Setting.MAX_CONCURRENT_STREAMS: self.streams,
            Setting.INITIAL_WINDOW_SIZE: frames.FIRST_WINDOW,
            Setting.MAX_FRAME_SIZE: frames.MAX_FRAME_BYTES,
            Setting.MAX_HEADER_LIST_SIZE: self.max_list_bytes,
        }
        more = frames.FIRST_WINDOW - frames.DEFAULT_WINDOW
        return frames.settings(values) + frames.window_update(0, more)

    def check_frame(self, kind: int, number: int, length: int) -> None:
        """Raise :class:`ConnectionFault` for the head of a frame that no peer may send."""
        if (kind in _ON_STREAMS and not number) or (kind in _ON_CONNECTIONS and number):
            raise ConnectionFault(Code.PROTOCOL_ERROR, f"{Kind(kind).name} is on a wrong stream")
        if kind in _OF_BLOCKS:
            if length > self.max_block_bytes + frames.MAX_PADDING:
                raise ConnectionFault(Code.ENHANCE_YOUR_CALM, "a header block is too long")
        elif kind in frames.USED and length > frames.MIN_FRAME_BYTES:
            raise ConnectionFault(Code.FRAME_SIZE_ERROR, "a frame is longer than it may be")
        if length not in frames.LENGTHS.get(kind, frames.ANY_LENGTH):
            raise ConnectionFault(Code.FRAME_SIZE_ERROR, "a frame has a wrong length")

    def read_settings(self, payload: bytes) -> dict[int, int]:
        """The values in a peer's SETTINGS (RFC 9113, section 6.5.2); of one twice, the last.

        Raises :class:`ConnectionFault` for a value out of its range, and for too many.
        """
        if len(payload) % SETTING.size:
            raise ConnectionFault(Code.FRAME_SIZE_ERROR, "SETTINGS have a wrong length")
        if len(payload) > self.max_settings * SETTING.size:
            raise ConnectionFault(Code.ENHANCE_YOUR_CALM, "SETTINGS have too many values")
        values = dict(SETTING.iter_unpack(payload))
        if values.get(Setting.ENABLE_PUSH, 0) > 1:
            raise ConnectionFault(Code.PROTOCOL_ERROR, "ENABLE_PUSH must be 0 or 1")
        longest = values.get(Setting.MAX_FRAME_SIZE, frames.MIN_FRAME_BYTES)
        if not frames.MIN_FRAME_BYTES <= longest <= frames.MAX_FRAME_BYTES:
            raise ConnectionFault(Code.PROTOCOL_ERROR, "MAX_FRAME_SIZE is out of its range")
        if values.get(Setting.INITIAL_WINDOW_SIZE, 0) > frames.MAX_WINDOW:
            raise ConnectionFault(Code.FLOW_CONTROL_ERROR, "INITIAL_WINDOW_SIZE is too large")
        return values


class Allowance:
    """What a peer may do for nothing: a token bucket, full at first; ``clock`` returns seconds."""

    __slots__ = ("_balance", "_burst", "_clock", "_per_second", "_since")

    def __init__(self, burst: int, per_second: float, clock: Callable[[], float]) -> None:
        self._burst = self._balance = float(burst)
        self._per_second = per_second
        self._clock = clock
        self._since = clock()

    def spend(self) -> bool:
        """Take one; False if there is none left."""
        now = self._clock()
        self.earn((now - self._since) * self._per_second)
        self._since = now
        self._balance -= 1
        return self._balance >= 0

    def earn(self, count: float) -> None:
        """Add some, up to what it holds."""
        self._balance = min(self._balance + count, self._burst)


class Event(Enum):
    """What has happened to a stream."""

    OPENED = "its head has come, and maybe more"
    ARRIVED = "bytes have come, or the end"
    RESET = "the peer or the session has reset it"


class ConnectionFault(Exception):
    """The peer has broken the protocol, or a bound: the connection ends with this code."""

    def __init__(self, code: Code, reason: str) -> None:
        super().__init__(reason)
        self.code = code


class StreamFault(Exception):
    """The same for one stream alone, which is reset with this code."""

    def __init__(self, code: Code) -> None:
        self.code = code
