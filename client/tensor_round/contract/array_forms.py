"""The forms of callers' arrays: NumPy's, other libraries', frames, lists and numbers.

Each is viewed as a NumPy array, on its own memory where it has one, and each result is converted
from a NumPy array, or stays one where the form cannot have its dtype. Dtypes that NumPy lacks
(torch's bfloat16 and fp8) are viewed as integers first, so no element is ever converted. No library
is imported: a form is known by the name of its class.
"""

from __future__ import annotations

import array
import sys
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np

from .dtypes import BY_NAME, NAMES, dtype_name
from .errors import InvalidArgument, InvalidArgumentType
from .host_memory import Array, check_writable, refuse_loss_of_gradient

Wrap = Callable[[Array], Any]

#: DLPack's number for main memory.
_DLPACK_CPU = 1
#: Exceptions of exporters whose array cannot be read.
_EXPORT_ERRORS = (TypeError, ValueError, RuntimeError, BufferError, AttributeError)


class Operand(NamedTuple):
    """An array to round.

    ``array`` is a NumPy array of its elements. ``dtype`` is the canonical name of its dtype; for an
    unsupported dtype it is the library's own name, and ``array`` has the right shape alone.
    ``wrap`` converts a NumPy array to the operand's form, if that can have its dtype. ``is_view``:
    ``array`` is on the operand's own memory, so that writing fills it.
    """

    array: Array
    dtype: str
    wrap: Wrap
    is_view: bool = True


def read_array(x: Any, name: str = "x") -> Operand:
    """View ``x`` as a NumPy array, on its own memory where it has one.

    ``x`` is of a form in :data:`_FORMS`, or exports ``__array_interface__``, DLPack on the CPU or
    the buffer protocol, or is an object whose ``data`` is a NumPy array of its ``dtype``. Masked
    arrays keep their mask; other subclasses of ``numpy.ndarray`` become plain arrays. Raises
    :class:`InvalidArgument`, which names ``name``, for anything else.
    """
    if type(x) is np.ndarray:  # most callers' form, at the least cost
        return Operand(x, NAMES.get(x.dtype) or x.dtype.name, _unchanged)
    read = _FORMS.get(form_of(x), _read_exporter)
    if isinstance(read, str):
        sentence = read.format(x=name)
        raise InvalidArgumentType(f"{name} is {form_name(x)}: {sentence}")
    try:
        return read(x, name)
    except InvalidArgument:
        raise
    except _EXPORT_ERRORS as error:
        raise InvalidArgument(f"the {type(x).__name__} cannot be read: {error}") from error


def read_out(out: Any) -> Operand:
    """View ``out`` as :func:`read_array` does; raises :class:`InvalidArgument` for a copy."""
    operand = read_array(out, "out")
    if not operand.is_view:
        raise InvalidArgument(f"out is {form_name(out)}, which is not filled: take the result")
    return operand


def writable_array(out: Any, shape: tuple[int, ...], dtype: str) -> Array:
    """View ``out`` as a NumPy array that results of this shape and dtype can be written into.

    Byte order and strides may differ. Raises :class:`InvalidArgument` for another shape or dtype,
    and what :func:`check_writable` raises.
    """
    read = read_out(out)
    target = read.array
    if target.shape != shape:
        raise InvalidArgument(f"out has shape {target.shape}, x has {shape}")
    if read.dtype != dtype:
        raise InvalidArgument(f"out has dtype {read.dtype}, the result has {dtype}")
    check_writable(target)
    return target


def form_of(x: object) -> tuple[str, str]:
    """The package and the name of the class of ``x``, or of the nearest base that is a form."""
    kind: type = type(x)
    return _form_of(kind)


@lru_cache(maxsize=64)
def _form_of(of: type) -> tuple[str, str]:
    names = [(base.__module__.partition(".")[0], base.__name__) for base in of.__mro__]
    return next((name for name in names if name in _FORMS), names[0])


def _operand(array: Array, wrap: Wrap, *, is_view: bool = True) -> Operand:
    return Operand(array, dtype_name(array.dtype), wrap, is_view)


def _unsupported(x: Any, dtype: object) -> Operand:
    """An operand that is refused by its dtype's name, whatever its elements."""
    return Operand(np.empty(tuple(x.shape), np.uint8), str(dtype), _unchanged)


def _unchanged(y: Array) -> Any:
    return y


def _read_ndarray(x: Any, name: str) -> Operand:
    return _operand(np.asarray(x), _unchanged)


def _read_masked(x: Any, name: str) -> Operand:
    def wrap(y: Array) -> Any:
        # The mask is copied, so that a change to one array's mask leaves the other's alone.
        mask = x.mask if x.mask is np.ma.nomask else x.mask.copy()
        # Of another dtype, the result has that one's default.
        fill_value = x.fill_value if y.dtype == x.dtype else None
        return np.ma.MaskedArray(y, mask, fill_value=fill_value, hard_mask=x.hardmask)

    return _operand(np.asarray(x), wrap)


def _read_scalar(x: Any, name: str) -> Operand:
    return _operand(np.asarray(x), lambda y: y[()], is_view=False)


def _read_numbers(x: Any, name: str) -> Operand:
    """Python's floats or integers, alone or in nested lists and tuples, all of one type."""
    numbers = np.asarray(x)
    kinds = sorted({type(leaf).__name__ for leaf in _leaves(x)})
    if kinds not in ([], ["float"], ["int"]):
        held = " and ".join(kinds) if type(x).__name__ in kinds else (
            f"{type(x).__name__} of {' and '.join(kinds)}")  # fmt: skip
        can = numbers.dtype.kind in "biuf"
        rule = f"pass numpy.asarray({name})" if can else "its elements must be numbers"
        raise InvalidArgumentType(f"{name} is a {held}: {rule}")
    if numbers.dtype.kind not in "iuf":
        raise InvalidArgument(f"{name} has integers of more than 64 bits, which no dtype supports")

    def wrap(y: Array) -> Any:
        is_pythons = y.dtype in (numbers.dtype, np.float64, np.int64)
        return _nested_as(x, y.tolist()) if is_pythons else y[()]

    return _operand(numbers, wrap, is_view=False)


def _leaves(x: Any) -> Iterator[Any]:
    if isinstance(x, list | tuple):
        for item in x:
            yield from _leaves(item)
    else:
        yield x


def _nested_as(x: Any, y: Any) -> Any:
    """The numbers ``y``, in tuples where ``x`` has tuples."""
    if not isinstance(x, list | tuple):
        return y
    return (tuple if isinstance(x, tuple) else list)(map(_nested_as, x, y))


def _read_series(x: Any, name: str) -> Operand:
    make = partial(sys.modules["pandas"].Series, name=x.name)
    return _read_columns(x, name, x.dtype, make)


def _read_frame(x: Any, name: str) -> Operand:
    dtypes = list(dict.fromkeys(x.dtypes))
    if len(dtypes) != 1:
        held = " and ".join(map(str, dtypes)) or "no type"
        raise InvalidArgument(
            f"{name} has columns of {held}: pass columns of one type, as {name}[[...]], "
            f"or one, {name}[...]"
        )
    make = partial(sys.modules["pandas"].DataFrame, columns=x.columns)
    return _read_columns(x, name, dtypes[0], make)


def _read_columns(x: Any, name: str, dtype: Any, make: Callable[..., Any]) -> Operand:
    if not isinstance(dtype, np.dtype):
        # Nullable and Arrow's types: NaN and NA differ there, and NumPy has no NA.
        numpy = getattr(dtype, "numpy_dtype", None)
        if numpy is None or numpy.kind not in "iuf":
            return _unsupported(x, dtype)
        has_missing = x.isna().to_numpy().any()
        call = '"float64", na_value=float("nan")' if has_missing else f'"{numpy}"'
        raise InvalidArgument(
            f"{name} has pandas' dtype {dtype}, and arrays have no NA: pass {name}.to_numpy({call})"
        )

    def wrap(y: Array) -> Any:
        if not _is_numpy_own(y):
            return y
        made = make(y, index=x.index)
        made.attrs = x.attrs
        return made

    return _operand(x.to_numpy(), wrap, is_view=False)


def _read_polars(x: Any, name: str) -> Operand:
    polars = sys.modules["polars"]
    if not x.dtype.is_numeric():
        return _unsupported(x, x.dtype)
    if x.null_count():
        raise InvalidArgument(
            f"{name} has nulls, and arrays have none: pass {name}.fill_null(...) or "
            f"{name}.drop_nulls()"
        )

    def wrap(y: Array) -> Any:
        made = polars.Series(x.name, y) if _is_numpy_own(y) else None
        return y if made is None or made.to_numpy().dtype != y.dtype else made

    return _operand(x.to_numpy(), wrap, is_view=False)


def _read_xarray(x: Any, name: str) -> Operand:
    inner = read_array(x.data, f"{name}.data")
    wrap = inner.wrap
    return inner._replace(wrap=lambda y: x.copy(deep=False, data=wrap(y)))


def _read_torch(x: Any, name: str) -> Operand:
    torch = sys.modules["torch"]
    refuse_loss_of_gradient(x, name)
    if x.device.type != "cpu" or x.layout is not torch.strided:
        raise InvalidArgument(
            f"the tensor is {x.layout} on {x.device}: make it strided and on the CPU"
        )
    if x.is_neg():
        raise InvalidArgument(f"{name} is a negated view of a tensor: pass {name}.resolve_neg()")
    name = torch_dtype(x)
    if name not in BY_NAME:
        return _unsupported(x, name)
    dtype = BY_NAME[name]
    integer = getattr(torch, f"int{8 * dtype.itemsize}")

    def wrap(y: Array) -> Any:
        own = x.dtype if y.dtype == dtype.numpy else getattr(torch, dtype_name(y.dtype), None)
        if own is None or BY_NAME[dtype_name(y.dtype)].is_sub_byte:
            return y
        return torch.from_numpy(y.view(f"i{y.itemsize}")).view(own)

    return Operand(x.view(integer).numpy().view(dtype.numpy), dtype.name, wrap)


def torch_dtype(x: Any) -> str:
    """The name of a torch tensor's dtype, in full for 4 bits: torch states no layout of those."""
    name = str(x.dtype).removeprefix("torch.")
    return str(x.dtype) if name in BY_NAME and BY_NAME[name].is_sub_byte else name


def _read_openvino(x: Any, name: str) -> Operand:
    openvino = sys.modules["openvino"]
    # With pydantic: only for a tensor of OpenVINO.
    from .operators.dialects.openvino import CAST_DTYPES as OPENVINO_DTYPES

    own = x.element_type.get_type_name()
    if own not in OPENVINO_DTYPES:
        return _unsupported(x, f"openvino.Type.{own}")
    dtype = BY_NAME[OPENVINO_DTYPES[own]]
    if dtype.is_sub_byte:
        return _unsupported(x, f"openvino.Type.{own}")

    def wrap(y: Array) -> Any:
        name = dtype_name(y.dtype)
        own = next((each for each, dtype in OPENVINO_DTYPES.items() if dtype == name), None)
        if own is None or BY_NAME[name].is_sub_byte:
            return y
        made = openvino.Tensor(getattr(openvino.Type, own), openvino.Shape(y.shape))
        made.data.view(y.dtype)[...] = y
        return made

    # For a type that NumPy lacks, x.data has another type of the same size: float16 for bf16.
    return Operand(x.data.view(dtype.numpy), dtype.name, wrap)


def _read_buffer(make: Callable[[Array], Any], codes: str) -> Callable[[Any, str], Operand]:
    """A reader of buffers that ``make`` makes of elements with one of NumPy's ``codes``."""

    def wrap(y: Array) -> Any:
        return make(y) if y.dtype.char in codes else y

    return lambda x, name: _operand(np.asarray(memoryview(x)), wrap)


def _read_exporter(x: Any, name: str) -> Operand:
    """Anything that is in no table, by what it exports."""
    if hasattr(x, "__array_namespace__"):
        return _operand(_view_standard(x), partial(_as_standard, x.__array_namespace__()))
    if hasattr(x, "__array_interface__"):
        return _read_ndarray(x, name)
    if hasattr(x, "__dlpack__"):
        return _operand(_view_standard(x), _unchanged)
    try:
        return _operand(np.asarray(memoryview(x)), _unchanged)
    except TypeError:
        data = getattr(x, "data", None)
        if isinstance(data, np.ndarray) and getattr(x, "dtype", data.dtype) == data.dtype:
            return _read_ndarray(data, name)
    rule = f": pass numpy.asarray({name})" if hasattr(x, "__array__") else ""
    raise InvalidArgumentType(f"{name} is {form_name(x)}, not an array of numbers{rule}")


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


def _as_standard(namespace: Any, y: Array) -> Any:
    """An array of the namespace; ``y`` itself for a dtype that it lacks, or makes narrower."""
    try:
        made = namespace.asarray(y)
        return made if _view_standard(made).dtype == y.dtype else y
    except _EXPORT_ERRORS:
        return y


def _is_numpy_own(y: Array) -> bool:
    """Whether the dtype is NumPy's, and not one of ml_dtypes, which most libraries lack."""
    return y.dtype.isbuiltin == 1


def form_name(x: object) -> str:
    """The form of ``x`` in an error message: ``a list``, ``an xarray Dataset``."""
    package, name = form_of(x)
    name = name if package == "builtins" else f"{package} {name}"
    return f"{'an' if name[0] in 'aeioxAEIO' else 'a'} {name}"


#: What callers have in hand, by the package and the name of its class: how it is read, or, where no
#: result can be of the same form, the call that works. Bases count; the nearest comes first.
_FORMS: dict[tuple[str, str], Callable[[Any, str], Operand] | str] = {
    ("numpy", "ndarray"): _read_ndarray,
    ("numpy", "MaskedArray"): _read_masked,
    ("numpy", "generic"): _read_scalar,
    ("builtins", "float"): _read_numbers,
    ("builtins", "int"): _read_numbers,
    ("builtins", "list"): _read_numbers,
    ("builtins", "tuple"): _read_numbers,
    ("builtins", "bytes"): _read_buffer(lambda y: y.tobytes(), "B"),
    ("builtins", "bytearray"): _read_buffer(lambda y: bytearray(y.data), "B"),
    ("builtins", "memoryview"): _read_buffer(lambda y: y.data, f"e{array.typecodes}"),
    ("array", "array"): _read_buffer(
        lambda y: array.array(y.dtype.char, y.tobytes()), array.typecodes
    ),
    ("torch", "Tensor"): _read_torch,
    ("openvino", "Tensor"): _read_openvino,
    ("pandas", "Series"): _read_series,
    ("pandas", "DataFrame"): _read_frame,
    ("pandas", "Index"): "pass {x}.to_numpy()",
    ("polars", "Series"): _read_polars,
    ("polars", "DataFrame"): "pass {x}.to_numpy(), or a column, {x}[...]",
    ("polars", "LazyFrame"): "pass a column of {x}.collect()",
    ("xarray", "DataArray"): _read_xarray,
    ("xarray", "Variable"): _read_xarray,
    ("xarray", "Dataset"): "pass its arrays, as {x}.map(client.round) does",
    ("dask", "Array"): "pass {x}.compute(); Client.round and tensor_round.round keep it lazy",
    ("zarr", "Array"): "pass {x}[...], or dask.array.from_zarr({x}), which is rounded by chunks",
}
