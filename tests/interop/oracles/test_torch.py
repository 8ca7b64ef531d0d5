"""PyTorch, which has every direction but ties_to_away."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

from support.cases.oracle_ledger import Ledger
from tensor_round_verify import verify
from tensor_round_verify.reference import Bits

Array = npt.NDArray[Any]
OPERATORS = {
    "ties_to_even": torch.round,
    "toward_zero": torch.trunc,
    "toward_positive": torch.ceil,
    "toward_negative": torch.floor,
}
# The float type, and the integer type through which NumPy and PyTorch share its bits.
ELEMENTS = {
    "float16": (torch.float16, torch.int16),
    "bfloat16": (torch.bfloat16, torch.int16),
    "float32": (torch.float32, torch.int32),
    "float64": (torch.float64, torch.int64),
}


@pytest.mark.parametrize("rounding", OPERATORS)
@pytest.mark.parametrize("dtype", ELEMENTS)
def test_torch(ledger: Ledger, dtype: str, rounding: str) -> None:
    floats, integers = ELEMENTS[dtype]

    def ask(patterns: Bits) -> Bits:
        signed = patterns.dtype.str.replace("u", "i")
        given = torch.from_numpy(patterns.view(signed).copy()).view(floats)
        return OPERATORS[rounding](given).view(integers).numpy().view(patterns.dtype)

    ledger.compare("PyTorch", dtype, rounding, ask)


def by_torch(kernel: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Array], Array]:
    """A function of NumPy arrays that shares their memory with PyTorch."""

    def rounds(x: Array) -> Array:
        # PyTorch has no negative strides.
        given = torch.from_numpy(x if min(x.strides, default=0) >= 0 else x.copy())
        found: Array = kernel(given).numpy()
        return found

    return rounds


def without_tails(x: torch.Tensor) -> torch.Tensor:
    """A vector kernel that leaves the last elements as they are."""
    whole = x.numel() - x.numel() % 16
    flat = x.reshape(-1)
    return torch.cat([torch.round(flat[:whole]), flat[whole:]]).reshape(x.shape)


def without_strides(x: torch.Tensor) -> torch.Tensor:
    """A kernel that reads memory as if it were packed."""
    packed = [int(np.prod(x.shape[i + 1 :])) for i in range(x.dim())]
    return torch.round(torch.as_strided(x, x.shape, packed))


@pytest.mark.parametrize(
    ("kernel", "causes"),
    [
        (torch.round, []),
        (
            without_tails,
            ["the last 3 of 19 elements are not rounded, and so behind the last multiple of 16"],
        ),
        (without_strides, ["wrong for strided input: x[::2], x.T, x[:, :16]"]),
        (torch.Tensor.round_, ["changes its operand"]),
    ],
    ids=["right", "tails", "strides", "in-place"],
)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_a_kernel_in_torch_has_its_true_cause(
    kernel: Callable[[torch.Tensor], torch.Tensor], causes: list[str], dtype: str
) -> None:
    (verdict,) = verify(by_torch(kernel), dtypes=[dtype]).verdicts
    assert verdict.wrong == 0
    assert len(verdict.calls) == len(causes), verdict.calls
    for fault, cause in zip(verdict.calls, causes, strict=True):
        assert cause in fault.cause
