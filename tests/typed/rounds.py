"""Code that rounds, and how strict type checkers see it: ``make types`` reads it."""

from __future__ import annotations

from typing import assert_type

import numpy as np
import numpy.typing as npt

import tensor_round as tr

Floats = npt.NDArray[np.float32]


def rounded(client: tr.Client, x: Floats) -> Floats:
    """By every way of naming an operator."""
    assert_type(client.round(x), Floats)
    assert_type(tr.round(x, "onnx"), Floats)
    client.round(x, "ties_to_away")
    client.round(x, rounding="toward_zero", out=x)
    client.round(x, tr.Rounding.TIES_TO_EVEN, progress=print)
    client.round(x, "directml:TOWARD_INFINITY")
    client.round(x, tr.OnnxRound(opset_version=22))
    client.round(x, tr.OpenVINORound(mode="half_away_from_zero"))
    client.round(x, tr.DirectMLRound("TOWARD_ZERO", feature_level="3_0"))
    return client.round(x, tr.DirectMLRound(2, feature_level=0x3000))


async def awaited(x: Floats) -> Floats:
    """The same, awaited."""
    async with tr.AsyncClient("local:", timeout=None) as client:
        return await client.round(x, rounding="ties_to_even")


assert_type(tr.__version__, str)

# What type checkers must refuse.
client, zeros = tr.Client("local:"), np.zeros(3)
tr.round(zeros, "onnx:nearest")  # type: ignore[arg-type]  # pyright: ignore
client.round(zeros, "nearest")  # type: ignore[arg-type]  # pyright: ignore
client.round(zeros, rounding="half_to_even")  # type: ignore[arg-type]  # pyright: ignore
client.round(zeros, 2)  # type: ignore[arg-type]  # pyright: ignore
print(client.settings)  # type: ignore[attr-defined]  # pyright: ignore
tr.Client("local:", timeout="5")  # type: ignore[arg-type]  # pyright: ignore
tr.Client("local:", tiemout=5)  # type: ignore[call-arg]  # pyright: ignore
tr.Client(["http://a"])  # type: ignore[arg-type]  # pyright: ignore
tr.Client("local:", retries=None)  # type: ignore[arg-type]  # pyright: ignore
tr.IEEE754Round("up")  # type: ignore[arg-type]  # pyright: ignore
tr.OnnxRound(opset_version=10)  # type: ignore[arg-type]  # pyright: ignore
tr.OpenVINORound(mode="HALF_TO_EVEN")  # type: ignore[arg-type]  # pyright: ignore
tr.DirectMLRound("CEIL")  # type: ignore[arg-type]  # pyright: ignore
tr.DirectMLRound(feature_level="1_0")  # type: ignore[arg-type]  # pyright: ignore
tr.OnnxRound().descriptor("float33", [2])  # type: ignore[arg-type]  # pyright: ignore
