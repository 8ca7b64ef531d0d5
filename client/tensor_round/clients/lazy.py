"""Arrays that are computed later: dask's, alone or in xarray's, by their blocks."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..contract.array_forms import form_of
from ..contract.dtypes import dtype_name
from ..contract.errors import InvalidArgument
from ..contract.progress import ProgressCallback

if TYPE_CHECKING:
    from ..arrays.parameters import Parameters
    from .session import Applied

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
    function: Callable[[Any], Any],
    x: Any,
    operator: Applied,
    out: Any,
    progress: bool | ProgressCallback,
    parameters: Parameters | None = None,
) -> Any:
    """The lazy array of the results; ``function`` makes those of each block when it is computed.

    The operator is validated for the whole tensor now, if dask knows its shape, else on a scalar.
    Raises :class:`InvalidDescriptor`, and :class:`InvalidArgument` for ``out`` and ``progress``,
    and for several scales: a block does not know where it lies.
    """
    if out is not None or progress is not False:
        raise InvalidArgument("dask computes a lazy array later: omit out and progress")
    if form_of(x) in _XARRAY:
        data = by_blocks(function, x.data, operator, None, False, parameters)
        return x.copy(deep=False, data=data)
    types = () if parameters is None else parameters.types
    shape = (1,) * x.ndim if any(map(math.isnan, x.shape)) else x.shape
    call = operator.prepare(dtype_name(x.dtype), shape, *types).call
    if call.parameters is not None and call.parameters.scale.element_count > 1:
        raise InvalidArgument("the blocks of a dask array take one scale: pass x.compute()")
    made = call.output.dtype
    # Without the form of a block dask would call the function with an empty one to learn it.
    dtype = x.dtype if made.name == dtype_name(x.dtype) else made.numpy
    return x.map_blocks(function, dtype=dtype, meta=np.empty((0,) * x.ndim, dtype))
