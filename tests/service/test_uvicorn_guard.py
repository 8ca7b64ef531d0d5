"""What the HTTP protocol and server.py lean on of uvicorn's insides is there, as it was.

If this fails after an update of uvicorn, read them against uvicorn's ``httptools_impl`` and
``server`` before changing anything here.
"""

from __future__ import annotations

import inspect
import re

import httptools
import pytest
from uvicorn.protocols.http import flow_control, httptools_impl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import Server

PROTOCOL_ATTRIBUTES = [
    "transport",
    "flow",
    "loop",
    "parser",
    "scope",
    "headers",
    "cycle",
    "pipeline",
]
CYCLE_ATTRIBUTES = [
    "body",
    "more_body",
    "disconnected",
    "keep_alive",
    "waiting_for_100_continue",
    "response_started",
    "response_complete",
    "message_event",
    "default_headers",
    "on_response",
]


@pytest.mark.parametrize("name", PROTOCOL_ATTRIBUTES)
def test_the_protocol_has_its_attributes(name: str) -> None:
    assert f"self.{name}" in inspect.getsource(HttpToolsProtocol)


@pytest.mark.parametrize("name", CYCLE_ATTRIBUTES)
def test_the_cycle_has_its_attributes(name: str) -> None:
    assert f"self.{name}" in inspect.getsource(RequestResponseCycle.__init__)


def test_bodies_gather_in_the_cycle() -> None:
    assert "self.cycle.body += body" in inspect.getsource(HttpToolsProtocol.on_body)


def test_a_cycle_is_made_once_the_headers_are_complete() -> None:
    source = inspect.getsource(HttpToolsProtocol.on_headers_complete)
    assert "self.cycle = RequestResponseCycle(" in source
    assert "self._start_asgi_task(self.cycle, app)" in source


def test_a_cycle_is_made_of_what_the_prompt_way_gives_it() -> None:
    parameters = inspect.signature(RequestResponseCycle).parameters
    assert list(parameters) == [
        "scope",
        "transport",
        "flow",
        "logger",
        "access_logger",
        "access_log",
        "default_headers",
        "message_event",
        "expect_100_continue",
        "keep_alive",
        "on_response",
    ]
    assert inspect.iscoroutinefunction(RequestResponseCycle.run_asgi)


def test_a_scope_has_no_members_that_a_remembered_one_lacks() -> None:
    begun = inspect.getsource(HttpToolsProtocol.on_message_begin)
    assert re.findall(r'^ +"(\w+)": self\.', begun, re.MULTILINE) == [
        "server",
        "client",
        "scheme",
        "root_path",
        "headers",
        "state",
    ]


def test_a_lost_connection_is_told_to_the_last_request_that_came() -> None:
    source = inspect.getsource(HttpToolsProtocol.connection_lost)
    assert "self.cycle.disconnected = True" in source
    assert "if self.disconnected:" in inspect.getsource(RequestResponseCycle.send)


def test_a_connection_that_is_kept_has_its_time() -> None:
    source = inspect.getsource(HttpToolsProtocol.on_response_complete)
    assert "self.timeout_keep_alive_task = self.loop.call_later(" in source
    assert "self.timeout_keep_alive, self.timeout_keep_alive_handler" in source


def test_what_comes_is_parsed_by_the_steps_that_ours_takes_over() -> None:
    source = inspect.getsource(HttpToolsProtocol.data_received)
    for step in ("_unset_keepalive_if_required()", "feed_data(data)", "send_400_response("):
        assert step in source
    assert "self.flow = FlowControl(transport)" in inspect.getsource(
        HttpToolsProtocol.connection_made
    )
    ended = inspect.getsource(HttpToolsProtocol.on_response_complete)
    assert ended.index("resume_reading()") < ended.index("self.pipeline.pop()")


def test_the_parser_ends_a_request_that_asks_for_another_protocol_behind_its_head() -> None:
    """If it takes the body along one day, http_feed.py need not put it back on its feet."""

    class Callbacks:
        is_over = False

        def on_message_complete(self) -> None:
            self.is_over = True

    callbacks = Callbacks()
    parser = httptools.HttpRequestParser(callbacks)
    with pytest.raises(httptools.HttpParserUpgrade):
        parser.feed_data(
            b"POST / HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n"
            b"Content-Length: 4\r\n\r\nabcd"
        )
    assert callbacks.is_over


def test_queued_requests_are_started_oldest_first() -> None:
    source = inspect.getsource(HttpToolsProtocol)
    assert "self.pipeline.appendleft((self.cycle, app))" in source
    assert "self.pipeline.pop()" in source
    assert source.count("_start_asgi_task(") == 3


def test_the_end_of_what_a_sender_sends_does_nothing_else() -> None:
    assert inspect.getsource(HttpToolsProtocol.eof_received).rstrip().endswith("pass")


def test_a_response_ends_as_respond_ends_it() -> None:
    source = inspect.getsource(RequestResponseCycle.send)
    for step in (
        "self.response_complete = True",
        "self.message_event.set()",
        "self.transport.close()",
        "self.on_response()",
    ):
        assert step in source


def test_status_lines_and_flow_control() -> None:
    assert httptools_impl.STATUS_LINE[200] == b"HTTP/1.1 200 OK\r\n"
    for name in ("pause_reading", "resume_reading", "drain"):
        assert callable(getattr(flow_control.FlowControl, name))
    assert "write_paused" in inspect.getsource(flow_control.FlowControl)


def test_the_parser_has_the_leniency_that_pipelining_needs() -> None:
    assert hasattr(httptools.HttpRequestParser, "set_dangerous_leniencies")


def test_a_server_stops_by_the_steps_that_ours_takes_over() -> None:
    main_loop = inspect.getsource(Server.main_loop)
    assert "await self.on_tick(counter)" in main_loop
    assert "return True" in inspect.getsource(Server.on_tick)
    serve = inspect.getsource(Server._serve)
    assert "await self.startup(sockets=sockets)" in serve
    assert "await self.shutdown(sockets=sockets)" in serve
    own = inspect.getsource(Server.shutdown)
    for step in ("server.close()", "connection.shutdown()", "t.cancel(", "lifespan.shutdown()"):
        assert step in own


def test_a_server_raises_again_only_the_signals_that_it_noted_itself() -> None:
    assert "self._captured_signals.append(sig)" in inspect.getsource(Server.handle_exit)
    capture = inspect.getsource(Server.capture_signals)
    assert "signal.signal(sig, self.handle_exit)" in capture
    assert "in reversed(self._captured_signals)" in capture
