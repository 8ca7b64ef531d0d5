"""Arrays in host memory: a caller's array of any type, and a result of the same type.

Each array is viewed as a NumPy array on the same memory, and each result is converted from a
NumPy array. Dtypes that NumPy lacks (torch's bfloat16 and fp8) are viewed as integers first, so
no element is ever converted.
"""

from __future__ import annotations

import array
import math
import sys
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .dtypes import BY_NAME, from_numpy
from .errors import InvalidArgument, InvalidArgumentType
from .layout import Layout, are_distinct

Array = npt.NDArray[Any]

#: DLPack's number for main memory.
_DLPACK_CPU = 1
#: Exceptions of exporters whose array cannot be read.
_EXPORT_ERRORS = (TypeError, ValueError, RuntimeError, BufferError, AttributeError)


class Operand(NamedTuple):
    """An array to round.

    ``array`` is a NumPy view of its memory. ``dtype`` is the canonical name of its dtype; for an
    unsupported dtype it is the library's own name, and ``array`` has the right shape alone.
    ``wrap`` converts a NumPy array to the operand's type.
    """

    array: Array
    dtype: str
    wrap: Callable[[Array], Any]


def read_array(x: Any, name: str = "x") -> Operand:
    """View ``x`` as a NumPy array on its own memory.

    ``x`` is a NumPy array or scalar, a torch or OpenVINO tensor, an exporter of
    ``__array_interface__``, DLPack on the CPU or the buffer protocol, or an object whose ``data``
    is a NumPy array of its ``dtype``. Masked arrays keep their mask; other subclasses of
    ``numpy.ndarray`` become plain arrays. Raises :class:`InvalidArgument`, which names ``name``,
    for anything else.
    """
    if isinstance(x, np.ma.MaskedArray):
        return _operand(np.asarray(x), _masked_like(x))
    if isinstance(x, np.ndarray):
        return _operand(np.asarray(x), _unchanged)
    torch, openvino = sys.modules.get("torch"), sys.modules.get("openvino")
    try:
        if torch is not None and isinstance(x, torch.Tensor):
            return _read_torch(x, torch)
        if openvino is not None and isinstance(x, openvino.Tensor):
            return _read_openvino(x, openvino)
        return _operand(*_view_exported(x, name))
    except InvalidArgument:
        raise
    except _EXPORT_ERRORS as error:
        raise InvalidArgument(f"the {type(x).__name__} cannot be read: {error}") from error


def empty_like(array: Array) -> Array:
    """A new array of the same dtype, byte order and shape, laid out as ``copy(order="K")`` does.

    Dimensions are ordered by their strides in ``array``, without gaps.
    """
    return np.empty_like(array, order="K", subok=False)


def refuse_loss_of_mask(x: Any, out: Any) -> None:
    """Raise :class:`InvalidArgument` for an ``out`` that would lose the mask of ``x``."""
    if out is not x and any(isinstance(array, np.ma.MaskedArray) for array in (x, out)):
        raise InvalidArgument("a masked array is rounded into itself or a fresh one: out must be x")


def writable_array(out: Any, operand: Operand) -> Array:
    """View ``out`` as a NumPy array that the result of ``operand`` can be written into.

    Byte order and strides may differ. Raises :class:`InvalidArgument` for another shape or dtype,
    and what :func:`check_writable` raises.
    """
    target = read_array(out, "out").array
    if target.shape != operand.array.shape:
        raise InvalidArgument(f"out has shape {target.shape}, x has {operand.array.shape}")
    if _name(target.dtype) != operand.dtype:
        raise InvalidArgument(f"out has dtype {_name(target.dtype)}, x has {operand.dtype}")
    check_writable(target)
    return target


def check_writable(out: Array) -> None:
    """Raise :class:`InvalidArgument` for a read-only array, or one whose elements overlap."""
    if not out.flags.writeable:
        raise InvalidArgument("out is read-only")
    # Its bytes, as one more dimension: strides of NumPy need not be multiples of an element.
    shape, strides = (*out.shape, out.itemsize), (*map(abs, out.strides), 1)
    if out.size and not are_distinct(shape, strides):
        raise InvalidArgument("out has elements that share memory with each other")


def strided_view(memory: npt.NDArray[np.uint8], layout: Layout) -> Array:
    """The elements of a layout, as a view of its bytes; trailing padding may be missing."""
    if layout.element_count == 0:
        return np.empty(layout.shape, layout.dtype.numpy)
    steps = [
        stride * layout.dtype.itemsize if size > 1 else 0
        for stride, size in zip(layout.strides, layout.shape, strict=True)
    ]
    return np.ndarray(layout.shape, layout.dtype.numpy, memory, strides=steps)


def bits(array: Array) -> npt.NDArray[np.unsignedinteger[Any]]:
    """The elements as patterns, a view in the same byte order."""
    return array.view(_unsigned(array.dtype))


def runs(array: Array, limit: int) -> Iterator[Array]:
    """The elements in C order, as views of at most ``limit``; equal shapes give equal cuts."""
    if array.size <= limit:
        yield array
    else:
        yield from (array[box] for box in boxes(array.shape, limit))


def patterns(array: Array, limit: int) -> Iterator[npt.NDArray[np.unsignedinteger[Any]]]:
    """The elements in C order, as runs of at most ``limit`` little-endian patterns."""
    for part in map(bits, runs(array, limit)):
        yield np.ascontiguousarray(part, part.dtype.newbyteorder("<")).reshape(-1)


def boxes(shape: tuple[int, ...], limit: int) -> Iterator[tuple[Any, ...]]:
    """Index boxes that cover a shape in C order, each of at most ``limit`` elements."""
    axis = len(shape) - 1
    inner = 1
    while inner * shape[axis] <= limit:
        inner *= shape[axis]
        axis -= 1
    pieces = math.ceil(shape[axis] / (limit // inner))
    rows = math.ceil(shape[axis] / pieces)
    for outer in np.ndindex(shape[:axis]):
        for start in range(0, shape[axis], rows):
            yield (*outer, slice(start, start + rows))


@lru_cache(maxsize=64)
def _unsigned(dtype: np.dtype[Any]) -> np.dtype[np.unsignedinteger[Any]]:
    return np.dtype(f"u{dtype.itemsize}").newbyteorder(dtype.byteorder)


def _operand(array: Array, wrap: Callable[[Array], Any]) -> Operand:
    return Operand(array, _name(array.dtype), wrap)


def _name(dtype: np.dtype[Any]) -> str:
    row = from_numpy(dtype)
    return dtype.name if row is None else row.name


def _view_exported(x: Any, name: str) -> tuple[Array, Callable[[Array], Any]]:
    if isinstance(x, np.generic):
        return np.asarray(x), lambda y: y[()]
    if hasattr(x, "__array_namespace__"):
        return _view_standard(x), x.__array_namespace__().asarray
    if hasattr(x, "__array_interface__"):
        return np.asarray(x), _unchanged
    if hasattr(x, "__dlpack__"):
        return _view_standard(x), _unchanged
    try:
        memory = memoryview(x)
    except TypeError:
        data = getattr(x, "data", None)
        if isinstance(data, np.ndarray) and getattr(x, "dtype", data.dtype) == data.dtype:
            return np.asarray(data), _unchanged
        raise InvalidArgumentType(
            f"{name}: {type(x).__name__} is no array: pass numpy.asarray({name})"
        ) from None
    return np.asarray(memory), _FROM_BUFFER.get(type(x), lambda _: _unchanged)(x)


def _view_standard(x: Any) -> Array:
    """View an array of the array API standard through DLPack, or else ``__array__``."""
    device, _ = x.__dlpack_device__()
    if device != _DLPACK_CPU:
        raise InvalidArgument(f"the {type(x).__name__} is not in main memory: copy it to the CPU")
    try:
        return np.from_dlpack(x)
    except (BufferError, RuntimeError):
        # NumPy's DLPack lacks bfloat16 and fp8; __array__ gives them as ml_dtypes.
        if not hasattr(x, "__array__"):
            raise
        return np.asarray(x)


def _read_torch(x: Any, torch: Any) -> Operand:
    if x.device.type != "cpu" or x.layout is not torch.strided:
        raise InvalidArgument(
            f"the tensor is {x.layout} on {x.device}: make it strided and on the CPU"
        )
    name = str(x.dtype).removeprefix("torch.")
    dtype = BY_NAME.get(name)
    if dtype is None:
        return Operand(np.empty(x.shape), name, _unchanged)
    integer = getattr(torch, f"int{8 * dtype.itemsize}")

    def wrap(y: Array) -> Any:
        return torch.from_numpy(y.view(f"i{dtype.itemsize}")).view(x.dtype)

    return Operand(x.detach().view(integer).numpy().view(dtype.numpy), name, wrap)


def _read_openvino(x: Any, openvino: Any) -> Operand:
    # With pydantic: only for a tensor of OpenVINO.
    from .operators.dialects.openvino import DTYPES as OPENVINO_DTYPES

    name = x.element_type.get_type_name()
    if name not in OPENVINO_DTYPES:
        # No dialect has this type: it is refused by its name, whatever its data.
        return Operand(np.empty(tuple(x.shape), np.uint8), f"openvino.Type.{name}", _unchanged)
    dtype = BY_NAME[OPENVINO_DTYPES[name]]

    def wrap(y: Array) -> Any:
        made = openvino.Tensor(x.element_type, openvino.Shape(y.shape))
        made.data.view(y.dtype)[...] = y
        return made

    # For a type that NumPy lacks, x.data has another type of the same size: float16 for bf16.
    return Operand(x.data.view(dtype.numpy), dtype.name, wrap)


def _unchanged(y: Array) -> Any:
    return y


def _masked_like(x: Any) -> Callable[[Array], Any]:
    def wrap(y: Array) -> Any:
        # The mask is copied, so that a change to one array's mask leaves the other's alone.
        mask = x.mask if x.mask is np.ma.nomask else x.mask.copy()
        return np.ma.MaskedArray(y, mask, fill_value=x.fill_value, hard_mask=x.hardmask)

    return wrap


def _array_array(x: Any) -> Callable[[Array], Any]:
    return lambda y: array.array(x.typecode, y.tobytes())


#: Types of the standard library, each with a maker of its converters from NumPy.
_FROM_BUFFER: dict[type, Callable[[Any], Callable[[Array], Any]]] = {
    bytes: lambda _: lambda y: y.tobytes(),
    bytearray: lambda _: lambda y: bytearray(y.data),
    memoryview: lambda _: lambda y: y.data,
    array.array: _array_array,
}
