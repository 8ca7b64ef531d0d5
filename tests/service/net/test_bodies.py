"""The content of a request, over a source that gives its bytes in any cuts."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import random
from collections.abc import Callable
from typing import Any, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.memory import traced
from tensor_round.contract.errors import (
    DigestMismatch,
    MalformedEncoding,
    PayloadSizeMismatch,
    TensorTooLarge,
)
from tensor_round.contract.progress import Pause
from tensor_round_service.net.bodies import (
    PIECE_BYTES,
    ByteSource,
    Prefixed,
    Progress,
    expect_end,
    read_all,
    read_up_to,
)
from tensor_round_service.net.codings import (
    DECODING_BYTES,
    STEP_BYTES,
    Decoded,
    Verified,
    decoder_for,
)

CONTENT = random.Random(1).randbytes(3 * STEP_BYTES)
Result = TypeVar("Result")
pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Cut:
    """A source whose bytes come in random cuts, and whose end may be known late."""

    def __init__(self, data: bytes, seed: int = 1, *, knows_end: bool = True) -> None:
        self._left = memoryview(data)
        self._random = random.Random(seed)
        self._knows_end = knows_end
        self.is_at_end = knows_end and not data

    async def receive_into(self, target: memoryview, progress: Progress | None = None) -> int:
        filled = 0
        while filled < len(target) and self._left:
            room = min(len(target) - filled, len(self._left))
            count = self._random.choice((1, room, self._random.randint(1, room)))
            target[filled : filled + count] = self._left[:count]
            self._left = self._left[count:]
            filled += count
            await asyncio.sleep(0)
            if progress is not None:
                progress(len(target) - filled)
        self.is_at_end = not self._left and (self._knows_end or filled < len(target))
        return filled


class Ready:
    """A source that never waits, and gives at most so many bytes at a time."""

    def __init__(self, data: bytes, most: int) -> None:
        self._left, self._most = memoryview(data), most
        self.is_at_end = False

    async def receive_into(self, target: memoryview, _: Progress | None = None) -> int:
        count = min(len(target), self._most)
        piece, self._left = self._left[:count], self._left[count:]
        target[: len(piece)] = piece
        self.is_at_end = not self._left
        return len(piece)


async def drained(source: ByteSource, size: int) -> bytes:
    """All bytes of a source, in targets of that size."""
    content = b""
    while True:
        target = memoryview(bytearray(size))
        count = await source.receive_into(target)
        content += target[:count]
        if count < size:
            assert source.is_at_end
            return content
        if source.is_at_end:
            return content


def decoding(source: ByteSource, *beside: Any) -> Decoded:
    decoder = decoder_for("gzip")
    assert decoder is not None
    return Decoded(source, decoder, *beside)


def verified(data: bytes, seed: int = 1, *, knows_end: bool = True) -> Verified:
    return Verified(Cut(data, seed, knows_end=knows_end), digests(data))


def digests(data: bytes) -> dict[str, bytes]:
    return {"sha-256": hashlib.sha256(data).digest(), "sha-512": hashlib.sha512(data).digest()}


def prefixed(data: bytes, seed: int = 1, *, knows_end: bool = True) -> Prefixed:
    cut = seed % (len(data) + 1)
    return Prefixed(memoryview(data[:cut]), Cut(data[cut:], seed, knows_end=knows_end))


@given(st.binary(max_size=200), st.integers(0, 300), st.integers(1, 70), st.booleans())
async def test_every_source_gives_all_bytes(
    data: bytes, seed: int, size: int, knows_end: bool
) -> None:
    for source in (
        Cut(data, seed, knows_end=knows_end),
        prefixed(data, seed, knows_end=knows_end),
        verified(data, seed, knows_end=knows_end),
        decoding(Cut(gzip.compress(data, mtime=0), seed, knows_end=knows_end)),
    ):
        assert await drained(source, size) == data
        await expect_end(source, len(data))


async def test_progress_reaches_the_source_behind_a_prefix() -> None:
    missing: list[int] = []
    source = prefixed(bytes(10), 4)
    target = memoryview(bytearray(8))
    assert await source.receive_into(target[:4], missing.append) == 4
    assert not missing
    assert await source.receive_into(target, missing.append) == 6
    assert missing[-1] == 2


@pytest.mark.parametrize("knows_end", [True, False])
@pytest.mark.parametrize("size", [1, 3, 5, 100])
@pytest.mark.parametrize("wrong", ["sha-256", "sha-512"])
async def test_other_bytes_than_a_digest_says(size: int, knows_end: bool, wrong: str) -> None:
    stated = {**digests(b"abcde"), wrong: digests(b"abcdf")[wrong]}
    source = Verified(Cut(b"abcde", knows_end=knows_end), stated)
    with pytest.raises(DigestMismatch):
        await drained(source, size)


async def test_no_bytes_have_a_digest_too() -> None:
    with pytest.raises(DigestMismatch):
        await expect_end(Verified(Cut(b""), digests(b"a")), 0)


@pytest.mark.parametrize(
    "encoded", [gzip.compress(b"abc", mtime=0)[:-1], gzip.compress(b"abc", mtime=0) + b"d"]
)
async def test_malformed_encoding_is_rejected(encoded: bytes) -> None:
    with pytest.raises(MalformedEncoding):
        await drained(decoding(Cut(encoded)), 2)


async def test_only_the_first_step_is_decoded_on_the_event_loop() -> None:
    sizes, pauses = list[Any](), list[None]()

    async def beside(work: Callable[[Pause], Result]) -> Result:
        sizes.append(work(lambda: pauses.append(None)))
        result: Result = sizes[-1]
        return result

    source = decoding(Cut(gzip.compress(CONTENT, mtime=0)), beside)
    assert await drained(source, STEP_BYTES - 1) == CONTENT
    assert sum(sizes) == 2 * STEP_BYTES
    assert len(pauses) >= 2


async def test_decoding_lets_others_in_after_each_piece() -> None:
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(others())
    source = decoding(Ready(gzip.compress(CONTENT[:10_000], mtime=0), 100))
    assert await source.receive_into(memoryview(bytearray(20_000))) == 10_000
    task.cancel()
    assert turns > 50


async def test_members_of_which_one_ends_before_a_target_does() -> None:
    encoded = gzip.compress(b"a" * 10, mtime=0) + gzip.compress(b"b" * 1000, mtime=0)
    assert await drained(decoding(Cut(encoded)), 20) == b"a" * 10 + b"b" * 1000


async def test_decoding_takes_the_memory_that_is_reserved_for_it() -> None:
    received = Ready(gzip.compress(CONTENT, mtime=0), len(CONTENT))
    target = memoryview(bytearray(1000))
    with traced() as most:
        source = decoding(received)
        while not source.is_at_end:
            await source.receive_into(target)
        peak = most()
    assert peak < DECODING_BYTES < peak + (60 << 10)


@pytest.mark.parametrize("knows_end", [True, False])
async def test_the_end_is_where_nothing_follows(knows_end: bool) -> None:
    await expect_end(Cut(b"", knows_end=knows_end), 0)
    with pytest.raises(PayloadSizeMismatch, match="12 bytes"):
        await expect_end(Cut(b"a", knows_end=knows_end), 12)


async def test_the_end_is_looked_for_by_one_byte() -> None:
    source = Cut(b"abc")
    with pytest.raises(PayloadSizeMismatch):
        await expect_end(source, 0)
    assert bytes(source._left) == b"bc"


@pytest.mark.parametrize(
    ("nbytes", "taken"), [(0, b""), (1, b"a"), (3, b"abc"), (4, b"abc"), (99, b"abc")]
)
async def test_taking_the_next_bytes(nbytes: int, taken: bytes) -> None:
    assert await read_up_to(Cut(b"abc"), nbytes) == taken


LENGTHS = [0, 1, PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1, 5 * PIECE_BYTES, len(CONTENT)]


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("slack", [0, 1, 1 << 20])
async def test_reading_all_that_is_left(length: int, slack: int) -> None:
    for likely in {0, length // 2, length, length + slack}:
        reserved: list[int] = []
        content = await read_all(Cut(CONTENT[:length]), length + slack, reserved.append, likely)
        assert content == CONTENT[:length]
        assert all(nbytes > 0 for nbytes in reserved)
        assert length <= sum(reserved) <= length + slack + 1


@pytest.mark.parametrize("length", LENGTHS[1:])
async def test_reading_more_than_the_limit(length: int) -> None:
    for likely in (0, length - 1):
        reserved: list[int] = []
        with pytest.raises(TensorTooLarge) as raised:
            await read_all(Cut(CONTENT[:length]), length - 1, reserved.append, likely)
        assert raised.value.limit_bytes == length - 1
        assert sum(reserved) <= length


async def test_a_length_over_the_limit_is_not_read() -> None:
    source = Cut(b"abc")
    with pytest.raises(TensorTooLarge):
        await read_all(source, 10, pytest.fail, stated_length=11)
    assert not source.is_at_end


@pytest.mark.parametrize(
    ("length", "stated", "piece", "steps"),
    [
        # A length that is stated is reserved once it is likely.
        (len(CONTENT), len(CONTENT), PIECE_BYTES, [PIECE_BYTES, len(CONTENT) + 1 - PIECE_BYTES]),
        (9, len(CONTENT), PIECE_BYTES, [PIECE_BYTES]),
        # Without one, or beyond it, memory grows by a quarter.
        (500, 250, 100, [100, 151, 100, 100, 112]),
        (700, 0, 100, [100] * 4 + [100, 125, 156]),
    ],
)
async def test_memory_is_reserved_step_by_step(
    length: int, stated: int, piece: int, steps: list[int]
) -> None:
    reserved: list[int] = []
    source, limit = Cut(CONTENT[:length]), len(CONTENT)
    await read_all(source, limit, reserved.append, stated_length=stated, piece_bytes=piece)
    assert reserved == steps


@pytest.mark.parametrize("allowed", [0, PIECE_BYTES, 4 * PIECE_BYTES])
async def test_memory_that_is_refused_is_not_taken(allowed: int) -> None:
    source = Cut(CONTENT)
    left = allowed

    def reserve(nbytes: int) -> None:
        nonlocal left
        if nbytes > left:
            raise MemoryError
        left -= nbytes

    with pytest.raises(MemoryError):
        await read_all(source, len(CONTENT), reserve)
    assert len(CONTENT) - len(source._left) == allowed - left


@pytest.mark.parametrize(("size", "is_beside"), [(256 << 10, False), ((256 << 10) + 1, True)])
async def test_long_pieces_are_hashed_beside_the_event_loop(size: int, is_beside: bool) -> None:
    content, pauses = CONTENT[:size], list[None]()

    async def beside(work: Callable[[Pause], Result]) -> Result:
        return work(lambda: pauses.append(None))

    source = Verified(Cut(content), digests(content), beside)
    got = bytearray(size)
    assert await source.receive_into(memoryview(got)) == size
    assert got == content
    assert source.is_at_end is True
    assert bool(pauses) is is_beside
