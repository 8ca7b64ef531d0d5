"""The adapters to ASGI: messages of other servers, and answers of an application."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from support.http.http1_site import Owner, owned
from tensor_round_service.auth.api_keys import CREDENTIALS
from tensor_round_service.net.asgi import (
    CONTROL_PIECE_BYTES,
    AsgiApplication,
    AsgiRequest,
    Message,
    respond_by_asgi,
    scope_of,
    send_response,
)
from tensor_round_service.net.bodies import ClientDisconnected
from tensor_round_service.net.response import FixedFields, Response

LARGE = bytes(range(250)) * 3000


def body(*pieces: bytes) -> list[Message]:
    last = len(pieces) - 1
    return [
        {"type": "http.request", "body": piece, "more_body": at < last}
        for at, piece in enumerate(pieces)
    ]


def request(*messages: Message, method: str = "POST", **scope: Any) -> AsgiRequest:
    """A request of another server, which gives these messages and no others."""
    given = {"headers": [], "path": "/p", "query_string": b"", "method": method, **scope}
    left: Iterator[Message] = iter(messages)

    async def receive() -> Message:
        return next(left)

    return AsgiRequest(given, receive)


async def read(source: AsgiRequest, size: int) -> list[bytes]:
    """What fills targets of this size, until the body is at its end."""
    found = []
    while not source.is_at_end:
        target = bytearray(size)
        count = await source.receive_into(memoryview(target))
        found.append(bytes(target[:count]))
    return found


@pytest.mark.parametrize("size", [1, 2, 3, 5, 100])
@pytest.mark.parametrize(
    "pieces", [[b"abcdefgh"], [b"abc", b"defgh"], [b"", b"abcdefg", b"", b"h"], [b"abcdefgh", b""]]
)
def test_body_fills_its_targets(size: int, pieces: list[bytes]) -> None:
    source = request(*body(*pieces))
    found = asyncio.run(read(source, size))
    assert b"".join(found) == b"abcdefgh"
    assert all(len(each) == size for each in found[:-1])
    assert (source.received, source.is_at_end) == (8, True)


def test_disconnect_ends_the_body() -> None:
    source = request(*body(b"abc", b"")[:1], {"type": "http.disconnect"})
    with pytest.raises(ClientDisconnected):
        asyncio.run(read(source, 4))
    assert (source.received, source.is_at_end, source.is_gone()) == (3, False, False)


def test_request_says_what_its_scope_does() -> None:
    asked = request(
        headers=[(b"content-length", b"7")],
        raw_path=b"/%70",
        client=("10.0.0.1", 9),
        scheme="https",
    )
    assert (asked.head.length, asked.head.target) == (7, b"/%70")
    assert (asked.client, asked.scheme) == (("10.0.0.1", 9), "https")


def test_scope_and_messages_may_lack_fields_with_defaults() -> None:
    asked = request({"type": "http.request"}, raw_path=None)
    assert (asked.head.length, asked.head.target) == (None, b"/p")
    assert (asked.client, asked.scheme) == (None, "http")
    assert asyncio.run(read(asked, 4)) == [b""]


def sent(response: Response, *, head_only: bool = False) -> list[Message]:
    """The messages by which another server is asked to send it."""
    messages: list[Message] = []

    async def send(message: Message) -> None:
        messages.append(message)

    asyncio.run(send_response(response, send, head_only=head_only))
    return messages


@pytest.mark.parametrize("head_only", [False, True])
def test_a_response_is_sent_in_pieces_and_its_memory_given_back(head_only: bool) -> None:
    parts = [b"abc", memoryview(LARGE), b""]
    response = Response(201, FixedFields((b"a", b"b")), parts, [(b"c", b"d")])
    response.owner = owner = Owner()
    start, *bodies = sent(response, head_only=head_only)
    length = str(3 + len(LARGE)).encode()
    assert start["type"] == "http.response.start"
    assert (start["status"], start["headers"]) == (
        201,
        [(b"a", b"b"), (b"c", b"d"), (b"content-length", length)],
    )
    assert {each["type"] for each in bodies} == {"http.response.body"}
    assert [each["more_body"] for each in bodies] == [True] * (len(bodies) - 1) + [False]
    assert b"".join(each["body"] for each in bodies) == (b"" if head_only else b"abc" + LARGE)
    assert max(len(each["body"]) for each in bodies) <= 256 << 10
    assert owner.ended == [(True, True)]


def test_not_modified_has_no_length() -> None:
    start, *_ = sent(Response(304, FixedFields(), [], []))
    assert start["headers"] == []


def test_the_memory_is_given_back_if_the_peer_is_gone() -> None:
    response, owner = owned(b"abc")

    async def send(message: Message) -> None:
        if message["type"] == "http.response.body":
            raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        asyncio.run(send_response(response, send, head_only=False))
    assert owner.ended == [(True, False)]


def test_the_scope_of_a_request() -> None:
    asked = request(
        method="HEAD",
        raw_path=b"/p?a=1",
        query_string=b"a=1",
        headers=[(b"host", b"h"), (b"x-api-key", b"secret"), (b"authorization", b"Bearer secret")],
        http_version="1.0",
        client=("10.0.0.1", 9),
    )
    scope = scope_of(asked, CREDENTIALS)
    assert (scope["type"], scope["method"], scope["http_version"]) == ("http", "GET", "1.0")
    assert (scope["path"], scope["raw_path"], scope["query_string"]) == ("/p", b"/p", b"a=1")
    assert (scope["headers"], len(asked.head.fields)) == ([(b"host", b"h")], 3)
    assert (scope["client"], scope["scheme"], scope["root_path"]) == (("10.0.0.1", 9), "http", "")
    assert scope_of(request(method="PUT"), frozenset())["method"] == "PUT"


def answer(
    application: AsgiApplication, source: AsgiRequest, owner: Owner | None = None
) -> Response:
    return asyncio.run(respond_by_asgi(application, source, owner or Owner()))


@pytest.mark.parametrize("length", [0, 1, CONTROL_PIECE_BYTES, 3 * CONTROL_PIECE_BYTES + 1])
def test_an_application_gets_the_body_in_small_pieces(length: int) -> None:
    content, got = LARGE[:length], list[bytes]()

    async def application(scope: Any, receive: Any, send: Any) -> None:
        more = True
        while more:
            message = await receive()
            got.append(message["body"])
            more = message["more_body"]
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"".join(got)})

    owner = Owner()
    response = answer(application, request(*body(content)), owner)
    assert b"".join(response.parts) == content
    assert max(map(len, got)) <= CONTROL_PIECE_BYTES
    assert response.owner is owner
    assert not owner.ended


@pytest.mark.parametrize(("length", "reserved"), [(4096, 0), (4097, 4097)])
def test_new_response_bytes_are_reserved_and_shared_ones_are_not(
    length: int, reserved: int
) -> None:
    async def application(scope: Any, receive: Any, send: Any) -> None:
        scope["state"]["code"] = "a_code"
        assert scope["state"]["owner"] is owner
        headers = [(b"content-length", b"9"), (b"a", b"b")]
        await send({"type": "http.response.start", "status": 404, "headers": headers})
        await send({"type": "http.response.body", "body": bytes(length), "more_body": True})
        await send({"type": "http.response.body", "body": memoryview(LARGE)})

    owner = Owner()
    response = answer(application, request(*body(b"")), owner)
    assert (response.status, response.code, response.headers) == (404, "a_code", [(b"a", b"b")])
    assert owner.reserved == reserved


def test_disconnect_is_told_once_ends_the_application_and_frees_its_memory() -> None:
    async def application(scope: Any, receive: Any, send: Any) -> None:
        assert (await receive())["type"] == "http.disconnect"
        again = asyncio.ensure_future(receive())
        assert not (await asyncio.wait([again], timeout=0.05))[0]
        again.cancel()
        await send({"type": "http.response.start", "status": 200, "headers": []})

    owner = Owner()
    with pytest.raises(ClientDisconnected):
        answer(application, request({"type": "http.disconnect"}), owner)
    assert owner.ended == [(False, False)]
