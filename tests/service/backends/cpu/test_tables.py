from __future__ import annotations

import numpy as np
import pytest

from support.cases.backend_calls import sample_pair
from tensor_round.contract.dtypes import BY_NAME
from tensor_round.contract.rounding import Rounding
from tensor_round_service.backends.cpu.narrow_floats import table
from tensor_round_verify.reference import ROUNDINGS


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("name", ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_tables_are_made_quietly_and_cannot_be_written(name: str, rounding: str) -> None:
    table.cache_clear()
    with np.errstate(all="raise"):
        entries = table(BY_NAME[name], Rounding(rounding))
    _, right = sample_pair(name, rounding)
    np.testing.assert_array_equal(entries, right)
    with pytest.raises(ValueError, match="read-only"):
        entries[0] = 1
