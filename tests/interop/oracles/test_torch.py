"""PyTorch, which has every direction but ties_to_away."""

from __future__ import annotations

import pytest
import torch

from support.cases.oracle_ledger import Ledger
from tensor_round_verify.reference import Bits

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
