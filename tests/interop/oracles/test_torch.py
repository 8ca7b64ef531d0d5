"""Kernels in PyTorch: a wrong one has its true cause."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

from tensor_round_verify import verify

Array = npt.NDArray[Any]


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
