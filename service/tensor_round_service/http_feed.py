"""uvicorn's HTTP protocol, with no more requests waiting than a few.

uvicorn parses all that one read brings and goes on reading as soon as one answer is out: a
client that sends a million requests in one go has them all made into objects, each some two
hundred times its bytes. Here what is behind requests that wait stays bytes, unparsed, and the
socket is not read on.
"""

from __future__ import annotations

from typing import Any

import httptools
from uvicorn.protocols.http.flow_control import FlowControl

from .http_mended import MendedHttpProtocol

#: What is parsed at a time, but for a body of known length: some 200 requests at the most.
PIECE_BYTES = 4 << 10

_NOTHING = memoryview(b"")


class FedHttpProtocol(MendedHttpProtocol):
    """One connection, parsed piece by piece."""

    #: What came and is not parsed yet.
    _held = _NOTHING
    #: Whether nothing that comes is heard any more.
    _is_deaf = False

    def connection_made(self, transport: Any) -> None:
        """Have a say in when to read on."""
        super().connection_made(transport)
        self.flow = _Flow(transport, self)

    def data_received(self, data: bytes) -> None:
        """Parse as much as should be."""
        self._unset_keepalive_if_required()
        if self._is_deaf:
            return
        if len(data) <= PIECE_BYTES and not self._held:
            self._parse(memoryview(data))
        else:
            self._held = memoryview(bytes(self._held) + data if self._held else data)
            self._parse_held()

    def _parse_held(self) -> None:
        held, self._held = self._held, _NOTHING
        while held and not (self.pipeline or self._is_deaf or self.transport.is_closing()):
            size = max(PIECE_BYTES, self._body_left())
            self._parse(held[:size])
            held = held[size:]
        if held and not (self._is_deaf or self.transport.is_closing()):
            self._held = held
            self.flow.pause_reading()

    def _body_left(self) -> int:
        """Bytes that are certain to be the present body's."""
        raise NotImplementedError

    def _parse(self, data: memoryview) -> None:
        try:
            while data:
                try:
                    self.parser.feed_data(data)
                    return
                except httptools.HttpParserUpgrade as upgrade:
                    data = data[upgrade.args[0] :]
                    self._stay_with_http()
        except httptools.HttpParserError:
            msg = "Invalid HTTP request received."
            self.logger.warning(msg)
            self.send_400_response(msg)

    def _framing(self) -> bytes:
        """The field that says where the present body ends; nothing where there is none."""
        raise NotImplementedError

    def _is_cut_short(self) -> bool:
        """Whether the parser ends a request behind its head though a body follows.

        It does so where the head asks for another protocol, and would then take the body
        for a next request. To nothing that is asked for is changed here, so the body is one.
        """
        return self.parser.should_upgrade() and bool(self._framing())

    def _stay_with_http(self) -> None:
        """Go on behind a head that asked for another protocol (RFC 9110, section 7.8)."""
        if self.parser.get_method() == b"CONNECT":
            self._is_deaf = True
            self.cycle.keep_alive = False
        elif framing := self._framing():
            callbacks = _BehindHead(self)
            self.parser = request_parser(callbacks)
            self.parser.feed_data(b"POST / HTTP/1.1\r\n%b\r\n\r\n" % framing)
            callbacks.is_mute = False

    def on_response_complete(self) -> None:
        """Start the next request; once none waits, go on with what came behind them."""
        super().on_response_complete()
        if self.pipeline or self.transport.is_closing():
            return
        if self._held:
            self._parse_held()
        if not (self._held or self.cycle.more_body):
            self.flow.resume_reading()


def request_parser(callbacks: object) -> Any:
    """A parser as uvicorn sets its own up."""
    parser = httptools.HttpRequestParser(callbacks)
    parser.set_dangerous_leniencies(lenient_data_after_close=True)
    return parser


class _BehindHead:
    """A connection's callbacks, which do not hear of a head that is only there for its framing."""

    def __init__(self, protocol: FedHttpProtocol) -> None:
        self._protocol = protocol
        self.is_mute = True
        self.on_body = protocol.on_body
        self.on_message_complete = protocol.on_message_complete

    def on_message_begin(self) -> None:
        if not self.is_mute:
            self._protocol.on_message_begin()

    def on_url(self, url: bytes) -> None:
        if not self.is_mute:
            self._protocol.on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self.is_mute:
            self._protocol.on_header(name, value)

    def on_headers_complete(self) -> None:
        if not self.is_mute:
            self._protocol.on_headers_complete()


class _Flow(FlowControl):
    """Reads nothing on as long as what has come would do."""

    def __init__(self, transport: Any, protocol: FedHttpProtocol) -> None:
        super().__init__(transport)
        self._protocol = protocol

    def resume_reading(self) -> None:
        """Only the last request that was parsed can need more, and only if it is at work."""
        if not (self._protocol.pipeline or self._protocol._held):
            super().resume_reading()
