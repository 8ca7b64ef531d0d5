"""Any array in, the same kind out.

Every kind is seen as a NumPy array on the same memory, and results are made from
NumPy arrays again. What NumPy has no type for (torch's bfloat16 and fp8) passes
through an integer view, so no element is ever converted.
"""

from __future__ import annotations

import array
import sys
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..dtypes import BY_NAME, BY_OPENVINO, from_numpy
from ..errors import InvalidArgument, InvalidArgumentType
from ..layout import Layout

Array = npt.NDArray[Any]

#: DLPack's number for main memory.
_DLPACK_CPU = 1
#: What exporters of arrays raise when they cannot be read.
_EXPORT_ERRORS = (TypeError, ValueError, RuntimeError, BufferError, AttributeError)


class Operand(NamedTuple):
    """An array to round.

    ``array`` shares its memory (but for a type that nothing here rounds, where it may
    be anything). ``dtype`` is the canonical name, or for such a type its own. ``give``
    makes an array of the operand's kind from a NumPy array.
    """

    array: Array
    dtype: str
    give: Callable[[Array], Any]


def read(x: Any, name: str = "x") -> Operand:
    """See ``x`` as a NumPy array on its own memory.

    Takes NumPy arrays and scalars, torch and OpenVINO tensors, and whatever exports
    ``__array_interface__``, DLPack on the CPU, or the buffer protocol, or has a NumPy array of
    its own ``dtype`` as its ``data``. Masked arrays keep their mask; other subclasses of NumPy's
    array come back as plain arrays. Raises :class:`InvalidArgument`, which tells of ``name``, for
    anything else.
    """
    if isinstance(x, np.ma.MaskedArray):
        return _operand(np.asarray(x), _masked_like(x))
    if isinstance(x, np.ndarray):
        return _operand(np.asarray(x), _as_it_is)
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


def empty_like(seen: Array) -> Array:
    """Fresh memory of the same dtype, byte order and shape, in the same order of dimensions.

    Like ``numpy.copy(order="K")``: gaps are closed, and dimensions lie in the order
    of their strides.
    """
    return np.empty_like(seen, order="K", subok=False)


def refuse_loss_of_mask(x: Any, out: Any) -> None:
    """Refuse with :class:`InvalidArgument` an ``out`` that would not have the mask of ``x``."""
    if out is not x and any(isinstance(array, np.ma.MaskedArray) for array in (x, out)):
        raise InvalidArgument("a masked array is rounded into itself or a fresh one: out must be x")


def writable(out: Any, operand: Operand) -> Array:
    """See ``out`` as a NumPy array that the result of ``operand`` can be written into.

    Raises :class:`InvalidArgument` unless shape and dtype are the operand's, and every
    element can be written on its own. Byte order and strides may differ.
    """
    target = read(out, "out").array
    if target.shape != operand.array.shape:
        raise InvalidArgument(f"out has shape {target.shape}, x has {operand.array.shape}")
    if _name(target.dtype) != operand.dtype:
        raise InvalidArgument(f"out has dtype {_name(target.dtype)}, x has {operand.dtype}")
    check_writable(target)
    return target


def check_writable(out: Array) -> None:
    """Refuse with :class:`InvalidArgument` an array whose elements cannot each be written."""
    if not out.flags.writeable:
        raise InvalidArgument("out is read-only")
    if not _is_free_of_overlap(out):
        raise InvalidArgument("out has elements that share memory with each other")


def laid_out(memory: npt.NDArray[np.uint8], layout: Layout) -> Array:
    """The elements of a layout in the bytes that it describes; they may be without the padding."""
    if layout.element_count == 0:
        return np.empty(layout.shape, layout.dtype.numpy)
    steps = [
        stride * layout.dtype.itemsize if size > 1 else 0
        for stride, size in zip(layout.strides, layout.shape, strict=True)
    ]
    return np.ndarray(layout.shape, layout.dtype.numpy, memory, strides=steps)


def bits(seen: Array) -> npt.NDArray[np.unsignedinteger[Any]]:
    """The elements as bit patterns, in the same memory and byte order."""
    return seen.view(_unsigned(seen.dtype))


@lru_cache(maxsize=64)
def _unsigned(dtype: np.dtype[Any]) -> np.dtype[np.unsignedinteger[Any]]:
    return np.dtype(f"u{dtype.itemsize}").newbyteorder(dtype.byteorder)


def _operand(seen: Array, give: Callable[[Array], Any]) -> Operand:
    return Operand(seen, _name(seen.dtype), give)


def _name(dtype: np.dtype[Any]) -> str:
    row = from_numpy(dtype)
    return dtype.name if row is None else row.name


def _view_exported(x: Any, name: str) -> tuple[Array, Callable[[Array], Any]]:
    if isinstance(x, np.generic):
        return np.asarray(x), lambda y: y[()]
    if hasattr(x, "__array_namespace__"):
        return _view_standard(x), x.__array_namespace__().asarray
    if hasattr(x, "__array_interface__"):
        return np.asarray(x), _as_it_is
    if hasattr(x, "__dlpack__"):
        return _view_standard(x), _as_it_is
    try:
        memory = memoryview(x)
    except TypeError:
        data = getattr(x, "data", None)
        if isinstance(data, np.ndarray) and getattr(x, "dtype", data.dtype) == data.dtype:
            return np.asarray(data), _as_it_is
        raise InvalidArgumentType(
            f"{name}: {type(x).__name__} is no array: it exports neither __array_interface__, nor "
            "DLPack, nor the buffer protocol; numpy.asarray makes arrays of lists and numbers"
        ) from None
    return np.asarray(memory), _FROM_BUFFER.get(type(x), lambda _: _as_it_is)(x)


def _view_standard(x: Any) -> Array:
    """An array of the array API standard, by DLPack where NumPy can read it so."""
    device, _ = x.__dlpack_device__()
    if device != _DLPACK_CPU:
        raise InvalidArgument(f"the {type(x).__name__} is not in main memory: copy it to the CPU")
    try:
        return np.from_dlpack(x)
    except (BufferError, RuntimeError):
        # NumPy's DLPack has no bfloat16 and no fp8; ml_dtypes has, by way of __array__.
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
        return Operand(np.empty(x.shape), name, _as_it_is)
    integer = getattr(torch, f"int{8 * dtype.itemsize}")

    def give(y: Array) -> Any:
        return torch.from_numpy(y.view(f"i{dtype.itemsize}")).view(x.dtype)

    return Operand(x.detach().view(integer).numpy().view(dtype.numpy), name, give)


def _read_openvino(x: Any, openvino: Any) -> Operand:
    name = x.element_type.get_type_name()
    dtype = BY_OPENVINO.get(name)
    if dtype is None:
        # A type of no dialect's, to be refused by name: what its data are does not matter.
        return Operand(np.empty(tuple(x.shape), np.uint8), f"openvino.Type.{name}", _as_it_is)

    def give(y: Array) -> Any:
        made = openvino.Tensor(x.element_type, openvino.Shape(y.shape))
        made.data.view(y.dtype)[...] = y
        return made

    # Where NumPy has no such type, OpenVINO shows another of the same size: float16 for bf16.
    return Operand(x.data.view(dtype.numpy), dtype.name, give)


def _as_it_is(y: Array) -> Any:
    return y


def _masked_like(x: Any) -> Callable[[Array], Any]:
    def give(y: Array) -> Any:
        # The mask is copied: whoever changes one array's must not change the other's.
        mask = x.mask if x.mask is np.ma.nomask else x.mask.copy()
        return np.ma.MaskedArray(y, mask, fill_value=x.fill_value, hard_mask=x.hardmask)

    return give


def _array_array(x: Any) -> Callable[[Array], Any]:
    return lambda y: array.array(x.typecode, y.tobytes())


#: For types of the standard library, what makes the like of one from a NumPy array.
_FROM_BUFFER: dict[type, Callable[[Any], Callable[[Array], Any]]] = {
    bytes: lambda _: lambda y: y.tobytes(),
    bytearray: lambda _: lambda y: bytearray(y.data),
    memoryview: lambda _: lambda y: y.data,
    array.array: _array_array,
}


def _is_free_of_overlap(target: Array) -> bool:
    """Whether each dimension, from the smallest stride up, steps over what the smaller reach."""
    reach = target.itemsize - 1
    for stride, size in sorted(
        (abs(stride), size)
        for stride, size in zip(target.strides, target.shape, strict=True)
        if size > 1
    ):
        if stride <= reach:
            return target.size == 0
        reach += (size - 1) * stride
    return True
