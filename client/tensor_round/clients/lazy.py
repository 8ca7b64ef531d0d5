"""Arrays that are computed later: dask's, alone or in xarray's, by their blocks."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ..contract.array_forms import form_of
from ..contract.dtypes import BY_NAME, dtype_name
from ..contract.errors import InvalidArgument
from ..contract.operators.operator import CastOperator, RoundOperator
from ..contract.progress import ProgressCallback

#: The forms of xarray that may have an array of dask as their data.
_XARRAY = (("xarray", "DataArray"), ("xarray", "Variable"))


def is_lazy(x: Any) -> bool:
    """Whether ``x`` is a dask array, or one of xarray that has one."""
    form = form_of(x)
    if form in _XARRAY:
        # The data of others may be in a file, and would be read here.
        return x.chunks is not None and is_lazy(x.data)
    return form == ("dask", "Array")


def by_blocks(
    method: Callable[..., Any],
    x: Any,
    operator: RoundOperator,
    out: Any,
    progress: bool | ProgressCallback,
) -> Any:
    """The lazy array of the results; ``method`` is called with each block when it is computed.

    The operator is validated for the whole tensor now, if dask knows its shape. Raises
    :class:`InvalidDescriptor`, and :class:`InvalidArgument` for ``out`` and ``progress``.
    """
    if out is not None or progress is not False:
        raise InvalidArgument("dask computes a lazy array later: omit out and progress")
    if form_of(x) in _XARRAY:
        data = by_blocks(method, x.data, operator, None, False)
        return x.copy(deep=False, data=data)
    if not any(map(math.isnan, x.shape)):
        operator.prepare(dtype_name(x.dtype), x.shape)
    # Without the form of a block dask would call the function with an empty one to learn it.
    dtype = BY_NAME[str(operator.to)].numpy if isinstance(operator, CastOperator) else x.dtype
    meta = np.empty((0,) * x.ndim, dtype)
    return x.map_blocks(partial(method, operator=operator), dtype=dtype, meta=meta)
