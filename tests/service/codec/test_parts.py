"""The parts that a tensor's text is written in."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tensor_round.contract.dtypes import BY_NAME
from tensor_round_service.codec import jsontensor


@pytest.mark.parametrize("shape", [(400_000,), (100, 4000), (40, 10_000)])
def test_a_long_text_has_parts_of_256_kib(shape: tuple[int, ...]) -> None:
    values = np.arange(400_000).astype(np.int8).reshape(shape)
    parts = jsontensor.write(values.tobytes(), BY_NAME["int8"], shape)
    lengths = [len(part) for part in parts]
    assert len(parts) > 4
    assert min(lengths[:-1]) >= 256 << 10
    assert max(lengths) < 384 << 10
    assert json.loads(b"".join(parts)) == values.tolist()


def test_a_text_of_exactly_256_kib_is_a_part() -> None:
    """31 rows of 4096 numbers, of which these many have two digits, and the comma after them."""
    rows = np.zeros((80, 4096), np.int8)
    rows[:31].reshape(-1)[:8129] = 10
    rows[31:62].reshape(-1)[:8130] = 10
    first, second, rest = jsontensor.write(rows.tobytes(), BY_NAME["int8"], rows.shape)
    assert (len(first), first[-2:]) == (256 << 10, b"],")
    assert (len(second), second[-2:]) == (256 << 10, b"],")
    assert json.loads(first + second + rest) == rows.tolist()


@pytest.mark.parametrize("name", ["int8", "float32"])
def test_a_pause_follows_each_block_that_is_read(name: str) -> None:
    pauses: list[None] = []
    count = 10 * jsontensor.BLOCK
    jsontensor.read([b"1"] * count, BY_NAME[name], (count,), pause=lambda: pauses.append(None))
    assert len(pauses) >= 10


def test_a_pause_follows_each_block_that_is_written() -> None:
    pauses: list[None] = []
    values = np.zeros(10 * jsontensor.BLOCK, np.int8)
    jsontensor.write(
        values.tobytes(), BY_NAME["int8"], values.shape, pause=lambda: pauses.append(None)
    )
    assert len(pauses) >= 10
