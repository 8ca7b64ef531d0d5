"""What becomes of a sequence elsewhere: in the h2 package, and in nghttp2 where its library is."""

from __future__ import annotations

import ctypes
from ctypes import c_int, c_int32, c_size_t, c_ssize_t, c_uint8, c_void_p
from ctypes.util import find_library
from typing import Any

import h2.config
import h2.connection
import h2.events
import h2.exceptions

from tensor_round_service.grpc.http2.frames import END_STREAM, Code, Kind

from .outcomes import Outcome, resets, told

#: Why h2 may refuse what is served here: another stream alone is reset, what a peer that has said
#: GOAWAY sends is served, settings and lengths that change nothing are ignored, no request needs an
#: authority, frames and bodies are judged when they are whole, and which of the streams with lower
#: numbers were open is forgotten.
H2_ALONE = (
    "in state ConnectionState.CLOSED",
    "has invalid value",
    "Stream ID must be",
    "Expected 5 bytes, received",
    "is lower than",
    "does not have an :authority",
    "may not depend on itself",
    "Frame data missing or invalid",
)


def of_h2(data: bytes) -> Outcome:
    """What h2 makes of it."""
    config = h2.config.H2Configuration(client_side=False, header_encoding=None)
    connection = h2.connection.H2Connection(config)
    connection.initiate_connection()
    outcome = Outcome()
    try:
        for event in connection.receive_data(data):
            _note(event, outcome)
    except h2.exceptions.ProtocolError as error:
        outcome.fault, outcome.reason = type(error).__name__, str(error)
    return outcome


def _note(event: Any, outcome: Outcome) -> None:
    match event:
        case h2.events.RequestReceived():
            values = {bytes(name): bytes(value) for name, value in event.headers}
            outcome.heads[event.stream_id] = _head(values)
            outcome.contents[event.stream_id] = b""
        case h2.events.DataReceived():
            outcome.contents[event.stream_id] += event.data
        case h2.events.StreamEnded():
            outcome.ended.add(event.stream_id)
        case h2.events.StreamReset():
            outcome.reset.add(event.stream_id)


def _head(values: dict[bytes, bytes]) -> tuple[Any, ...]:
    path = values.get(b":path", b"").partition(b"?")[0].decode("latin-1")
    return values.get(b":method", b"").decode("latin-1"), path, values.get(b":authority")


class _FrameHead(ctypes.Structure):
    """``nghttp2_frame_hd``, with which every frame begins."""

    _fields_ = (("length", c_size_t), ("stream", c_int32), ("kind", c_uint8), ("flags", c_uint8))


_Frame = ctypes.POINTER(_FrameHead)
_Bytes = ctypes.POINTER(c_uint8)
_OnHeader = ctypes.CFUNCTYPE(
    c_int, c_void_p, _Frame, c_void_p, c_size_t, c_void_p, c_size_t, c_uint8, c_void_p
)
_OnData = ctypes.CFUNCTYPE(c_int, c_void_p, c_uint8, c_int32, c_void_p, c_size_t, c_void_p)
_OnFrame = ctypes.CFUNCTYPE(c_int, c_void_p, _Frame, c_void_p)


class Nghttp2:
    """nghttp2's server side, by ctypes."""

    def __init__(self, library: str) -> None:
        self._library = ctypes.CDLL(library)
        for name, result, *arguments in (
            ("callbacks_new", c_int, ctypes.POINTER(c_void_p)),
            ("callbacks_set_on_header_callback", None, c_void_p, _OnHeader),
            ("callbacks_set_on_data_chunk_recv_callback", None, c_void_p, _OnData),
            ("callbacks_set_on_frame_recv_callback", None, c_void_p, _OnFrame),
            ("server_new", c_int, ctypes.POINTER(c_void_p), c_void_p, c_void_p),
            ("mem_recv", c_ssize_t, c_void_p, ctypes.c_char_p, c_size_t),
            ("mem_send", c_ssize_t, c_void_p, ctypes.POINTER(c_void_p)),
            ("del", None, c_void_p),
        ):
            function = getattr(self._library, f"nghttp2_session_{name}")
            function.restype, function.argtypes = result, arguments
        self._library.nghttp2_submit_settings.argtypes = (c_void_p, c_uint8, c_void_p, c_size_t)
        self._callbacks = c_void_p()
        self._called("callbacks_new", ctypes.byref(self._callbacks))
        # Kept: the library calls them.
        self._functions = _OnHeader(self._header), _OnData(self._data), _OnFrame(self._frame)
        for kind, function in zip(
            ("header", "data_chunk_recv", "frame_recv"), self._functions, strict=True
        ):
            self._called(f"callbacks_set_on_{kind}_callback", self._callbacks, function)
        self._outcome = Outcome()
        self._values: dict[int, dict[bytes, bytes]] = {}

    @classmethod
    def found(cls) -> Nghttp2 | None:
        """That of this machine; None if there is none."""
        library = find_library("nghttp2")
        return None if library is None else cls(library)

    def outcome(self, data: bytes) -> Outcome:
        """What it makes of a sequence."""
        outcome = self._outcome = Outcome()
        self._values = {}
        session = c_void_p()
        self._called("server_new", ctypes.byref(session), self._callbacks, None)
        self._library.nghttp2_submit_settings(session, 0, None, 0)
        sent = [self._sent(session)]
        used = self._called("mem_recv", session, data, len(data))
        sent.append(self._sent(session))
        self._called("del", session)
        frames = told(b"".join(sent))
        outcome.reset |= resets(frames)
        for kind, _, _, payload in frames:
            if kind == Kind.GOAWAY:
                outcome.fault = Code(int.from_bytes(payload[4:8])).name
                outcome.reason = payload[8:].decode()
        if used < 0:
            outcome.fault, outcome.reason = "FATAL", str(used)
        return outcome

    def _called(self, name: str, *arguments: Any) -> Any:
        return getattr(self._library, f"nghttp2_session_{name}")(*arguments)

    def _sent(self, session: c_void_p) -> bytes:
        parts, at = [], c_void_p()
        while (count := self._called("mem_send", session, ctypes.byref(at))) > 0:
            assert at.value is not None
            parts.append(ctypes.string_at(at.value, count))
        return b"".join(parts)

    def _header(
        self, _session: int, frame: Any, name: int, length: int, value: int, size: int, *_: Any
    ) -> int:
        values = self._values.setdefault(frame.contents.stream, {})
        values[ctypes.string_at(name, length)] = ctypes.string_at(value, size)
        return 0

    def _data(self, _session: int, _flags: int, stream: int, data: int, size: int, _: Any) -> int:
        contents = self._outcome.contents
        contents[stream] = contents.get(stream, b"") + ctypes.string_at(data, size)
        return 0

    def _frame(self, _session: int, frame: Any, _: Any) -> int:
        head, outcome = frame.contents, self._outcome
        if head.kind == Kind.HEADERS and head.stream not in outcome.heads:
            outcome.heads[head.stream] = _head(self._values.get(head.stream, {}))
            outcome.contents.setdefault(head.stream, b"")
        if head.kind in (Kind.HEADERS, Kind.DATA) and head.flags & END_STREAM:
            outcome.ended.add(head.stream)
        if head.kind == Kind.RST_STREAM:
            outcome.reset.add(head.stream)
        return 0
