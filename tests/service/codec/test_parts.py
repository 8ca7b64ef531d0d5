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


def test_a_pause_follows_each_block() -> None:
    pauses: list[None] = []
    values = np.zeros(10 * jsontensor.BLOCK, np.int8)
    jsontensor.write(
        values.tobytes(), BY_NAME["int8"], values.shape, pause=lambda: pauses.append(None)
    )
    assert len(pauses) >= 10
