"""The two ways the NumPy backend has of keeping NaNs, on a machine that needs either."""

from __future__ import annotations

import numpy as np
import pytest

from support.backend_calls import sample_pair
from support.reference import ROUNDINGS
from tensor_round.dtypes import BY_NAME
from tensor_round.rounding import Rounding
from tensor_round_service.backends.floats import flags_tell, kernel, round_floats
from tensor_round_service.backends.tables import table


@pytest.mark.parametrize("in_place", [False, True], ids=["out-of-place", "in-place"])
@pytest.mark.parametrize("rounding", Rounding)
@pytest.mark.parametrize("name", ["float32", "float64"])
def test_searching_for_nans_finds_them_where_flags_do_not_tell(
    name: str, rounding: Rounding, in_place: bool
) -> None:
    dtype = BY_NAME[name]
    patterns, right = sample_pair(name, rounding)
    source = patterns.copy()
    target = None if in_place else np.empty_like(source)
    round_floats(
        source.view(dtype.numpy),
        None if target is None else target.view(dtype.numpy),
        kernel(dtype, rounding),
        suspicious=True,
    )
    np.testing.assert_array_equal(source if target is None else target, right)


def test_whether_flags_tell_is_found_out_once_and_quietly() -> None:
    flags_tell.cache_clear()
    with np.errstate(all="raise"):
        assert flags_tell() is flags_tell()


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
