"""Arrays of many kinds, seen as NumPy arrays and given back as what they were."""

from __future__ import annotations

import array
import ctypes
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tensor_round import InvalidArgument, InvalidArgumentType
from tensor_round.contract.array_forms import (
    form_name,
    form_of,
    read_array,
    read_out,
    writable_array,
)
from tensor_round.contract.dtypes import BY_NAME

VALUES = np.array([0.5, -1.5, 2.5], np.float32)


class Exporter:
    """Has an array, and shows it by the given protocols alone."""

    def __init__(self, held: Any, *protocols: str) -> None:
        self._held = held
        self._protocols = protocols

    def __getattr__(self, name: str) -> Any:
        if name in self._protocols:
            return getattr(self._held, name)
        raise AttributeError(name)


class StandardArray(Exporter):
    """An array of the array API standard, of its own type."""

    def __init__(self, held: Any) -> None:
        super().__init__(held, "__dlpack__", "__dlpack_device__", "dtype")

    def __array_namespace__(self) -> Any:
        return StandardNamespace

    def numpy(self) -> Any:
        return self._held


class StandardNamespace:
    asarray = StandardArray


KINDS: dict[str, tuple[Any, Callable[[Any], Any]]] = {
    "ndarray": (VALUES, lambda y: y),
    "numpy-scalar": (np.float32(2.5), lambda y: np.asarray(y)),
    "ml_dtypes-scalar": (ml_dtypes.bfloat16(2.5), lambda y: np.asarray(y)),
    "bytes": (VALUES.tobytes(), lambda y: np.frombuffer(y, np.uint8)),
    "bytearray": (bytearray(VALUES.tobytes()), lambda y: np.frombuffer(y, np.uint8)),
    "memoryview": (VALUES.reshape(3, 1).data, lambda y: np.asarray(y)),
    "memoryview-big-endian": (VALUES.astype(">f4").data, lambda y: np.asarray(y)),
    "array.array": (array.array("d", [0.5, 2.5]), lambda y: np.asarray(y)),
    "standard-array": (StandardArray(VALUES), lambda y: y.numpy()),
}


@pytest.mark.parametrize(("x", "seen"), KINDS.values(), ids=KINDS)
def test_the_same_kind_comes_back(x: Any, seen: Callable[[Any], Any]) -> None:
    operand = read_array(x)
    given = operand.wrap(operand.array.copy())
    assert type(given) is type(x)
    assert seen(given).dtype == seen(x).dtype
    assert seen(given).shape == seen(x).shape
    assert seen(given).tobytes() == seen(x).tobytes()


OTHERS: dict[str, Any] = {
    "array-interface": Exporter(VALUES, "__array_interface__"),
    "dlpack": Exporter(VALUES, "__dlpack__", "__dlpack_device__"),
    "ctypes": (ctypes.c_float * 3)(*VALUES),
}


@pytest.mark.parametrize("x", OTHERS.values(), ids=OTHERS)
def test_other_exporters_come_back_as_numpy(x: Any) -> None:
    operand = read_array(x)
    assert operand.dtype == "float32"
    assert operand.array.tobytes() == VALUES.tobytes()
    assert operand.wrap(operand.array) is operand.array


def test_reading_copies_nothing() -> None:
    for x in (VALUES, VALUES.data, *list(OTHERS.values())[:2]):
        assert np.shares_memory(read_array(x).array, VALUES)


NUMBERS: dict[str, tuple[Any, str]] = {
    "float": (2.5, "float64"),
    "int": (-3, "int64"),
    "floats": ([0.5, -1.5], "float64"),
    "ints": ([1, 2], "int64"),
    "wide-ints": ((2**64 - 1,), "uint64"),
    "nested": ([(0.5, 1.5), [2.5, -0.0]], "float64"),
    "empty": ([], "float64"),
}


@pytest.mark.parametrize(("x", "dtype"), NUMBERS.values(), ids=NUMBERS)
def test_numbers_come_back_in_the_lists_and_tuples_that_they_were_in(x: Any, dtype: str) -> None:
    operand = read_array(x)
    assert operand.dtype == dtype
    assert repr(operand.wrap(operand.array)) == repr(x)


CYCLE: list[Any] = []
CYCLE.append(CYCLE)

NO_ARRAYS: dict[str, tuple[Any, str]] = {
    "two-types": ([1, 2.5], r"^x is a list of float and int: pass numpy.asarray\(x\)$"),
    "numpy-scalars": ((np.float32(1),), r"^x is a tuple of float32: pass numpy.asarray\(x\)$"),
    "a-list-of-text": (["0.5"], "^x is a list of str: its elements must be numbers"),
    "a-list-in-itself": (CYCLE, "^the list cannot be read"),
    "a-truth": (True, r"^x is a bool: pass numpy.asarray\(x\)$"),
    "wide-integers": ([2**64], "^x has integers of more than 64 bits"),
    "by-__array__": (Exporter(VALUES, "__array__"), r"not an array of numbers: pass numpy.asarray"),
    "none": (None, "^x is a NoneType, not an array of numbers$"),
    "text": ("0.5", "^x is a str, not an array of numbers$"),
    "broken-interface": (
        Exporter(type("I", (), {"__array_interface__": {"shape": "?"}}), "__array_interface__"),
        "cannot be read",
    ),
}


@pytest.mark.parametrize(("x", "why"), NO_ARRAYS.values(), ids=NO_ARRAYS)
def test_value_that_is_not_an_array_is_refused(x: Any, why: str) -> None:
    with pytest.raises(InvalidArgument, match=why):
        read_array(x)


@pytest.mark.parametrize(
    ("name", "dtype"), [("complex64", "c8"), ("bool", "?"), ("object", "O"), ("str32", "U1")]
)
def test_other_types_are_named_for_the_descriptor_to_refuse(name: str, dtype: str) -> None:
    assert read_array(np.zeros(2, dtype)).dtype == name


OUTS: dict[str, tuple[Any, str]] = {
    "other-shape": (np.zeros((3, 2), "f4"), "out has shape"),
    "broadcastable": (np.zeros((1, 3), "f4"), "out has shape"),
    "other-dtype": (np.zeros((2, 3), "i4"), "out has dtype int32, the result has float32"),
    "read-only": (np.broadcast_to(np.float32(0), (2, 3)), "read-only"),
    "bytes": (bytes(24), "out has shape"),
    "overlapping": (
        np.lib.stride_tricks.as_strided(np.zeros(8, "f4"), (2, 3), (4, 4)),
        "share memory",
    ),
    "no-array": ("text", "out is a str, not an array"),
    "a-list": ([[0.0] * 3] * 2, "out is a list, which is not filled: take the result"),
}


@pytest.mark.parametrize(("out", "why"), OUTS.values(), ids=OUTS)
def test_an_out_that_does_not_fit_is_refused(out: Any, why: str) -> None:
    with pytest.raises(InvalidArgument, match=why):
        writable_array(out, (2, 3), "float32")


@pytest.mark.parametrize("mask", [[True, False, True], np.ma.nomask], ids=["some", "none"])
def test_a_masked_array_keeps_its_mask(mask: Any) -> None:
    x = np.ma.MaskedArray(VALUES, mask, fill_value=7)
    operand = read_array(x)
    y = operand.wrap(operand.array + 1)
    assert isinstance(y, np.ma.MaskedArray)
    assert np.array_equal(y.data, VALUES + 1)
    assert np.array_equal(np.ma.getmaskarray(y), np.ma.getmaskarray(x))
    assert y.fill_value == 7
    y[1] = np.ma.masked
    assert np.array_equal(np.ma.getmaskarray(x), np.broadcast_to(mask, 3))


def test_object_whose_data_is_an_array_of_its_dtype_is_an_array() -> None:
    operand = read_array(SimpleNamespace(data=VALUES))
    assert np.shares_memory(operand.array, VALUES)
    assert operand.wrap(VALUES) is VALUES
    with pytest.raises(InvalidArgument, match=r"not an array of numbers$"):
        read_array(SimpleNamespace(data=VALUES.astype(np.float16), dtype="bfloat16"))


# Libraries that are not installed here, as stand-ins with what is asked of them. The libraries
# themselves round in `tests/interop/oracles`.


class Series:
    """pandas.Series, and as much of polars.Series."""

    def __init__(self, values: Any, index: Any = None, name: Any = None, dtype: Any = None) -> None:
        self.values, self.index, self.name = np.asarray(values), index, name
        self.dtype = self.values.dtype if dtype is None else dtype
        self.shape, self.attrs = self.values.shape, {}

    def to_numpy(self) -> Any:
        return self.values.copy()

    def isna(self) -> Series:
        return Series(np.zeros(self.shape, bool))


class DataFrame(Series):
    def __init__(self, values: Any, index: Any = None, columns: Any = None) -> None:
        super().__init__(values, index)
        self.columns = columns
        self.dtypes = [self.values.dtype] * len(columns)


class PolarsSeries(Series):
    def __init__(self, name: str, values: Any, *, nulls: int = 0, is_numeric: bool = True) -> None:
        dtype = SimpleNamespace(is_numeric=lambda: is_numeric)
        super().__init__(values, name=name, dtype=dtype)
        self.null_count = lambda: nulls


class DataArray:
    def __init__(self, data: Any, name: str = "gain") -> None:
        self.data, self.name = data, name

    def copy(self, *, deep: bool, data: Any) -> DataArray:
        assert not deep
        return DataArray(data, self.name)


class Type(str):
    """A dtype of torch or of OpenVINO, by its name."""

    def get_type_name(self) -> str:
        return str(self)


class Tensor:
    """torch.Tensor, on memory of bytes."""

    requires_grad = False
    device = SimpleNamespace(type="cpu")
    layout = "strided"

    def __init__(self, values: Any, dtype: str = "torch.float32") -> None:
        self.values, self.dtype = np.asarray(values), Type(dtype)
        self.shape = self.values.shape

    def is_neg(self) -> bool:
        return False

    def view(self, dtype: Any) -> Tensor:
        return Tensor(
            self.values.view(dtype) if isinstance(dtype, np.dtype) else self.values, dtype
        )

    def numpy(self) -> Any:
        return self.values


class OpenVINOTensor:
    def __init__(self, element_type: Type, shape: Any) -> None:
        self.element_type, self.shape = element_type, shape
        self.data = np.zeros(shape, {"f32": "f4", "bf16": "f2"}.get(element_type, "u1"))


#: The class that has each kind's name.
STAND_INS = {
    **{("pandas", "Series"): Series, ("pandas", "DataFrame"): DataFrame},
    **{("polars", "Series"): PolarsSeries, ("xarray", "DataArray"): DataArray},
    **{("torch", "Tensor"): Tensor, ("openvino", "Tensor"): OpenVINOTensor},
}


for (_package, _name), _kind in STAND_INS.items():
    _kind.__module__, _kind.__name__ = f"{_package}.inner", _name


@pytest.fixture(autouse=True)
def libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    frames = SimpleNamespace(Series=Series, DataFrame=DataFrame)
    integers = {f"int{width}": np.dtype(f"i{width // 8}") for width in (8, 16, 32, 64)}
    torch = SimpleNamespace(strided="strided", from_numpy=Tensor, **integers)
    types = SimpleNamespace(f32=Type("f32"), bf16=Type("bf16"))
    openvino = SimpleNamespace(Tensor=OpenVINOTensor, Shape=tuple, Type=types)
    for package, module in (
        ("pandas", frames),
        ("polars", SimpleNamespace(Series=PolarsSeries)),
        ("torch", torch),
        ("openvino", openvino),
    ):
        monkeypatch.setitem(sys.modules, package, module)


def refused(x: Any, name: str = "x") -> str:
    with pytest.raises(InvalidArgument) as caught:
        read_array(x, name)
    return str(caught.value)


def test_a_kind_is_the_nearest_base_that_is_one() -> None:
    assert form_of(Series(VALUES)) == ("pandas", "Series")
    assert form_of(DataFrame(VALUES, columns=[1])) == ("pandas", "DataFrame")
    assert form_of(type("Mine", (Series,), {})(VALUES)) == ("pandas", "Series")
    assert (form_name([]), form_name(Series(VALUES))) == ("a list", "a pandas Series")


def test_a_series_and_a_frame_of_pandas() -> None:
    series = Series(VALUES, index=["a", "b", "c"], name="gain")
    frame = DataFrame(VALUES.reshape(3, 1), index=[7, 8, 9], columns=["a"])
    for x in (series, frame):
        x.attrs = {"unit": "dB"}
        operand = read_array(x)
        assert (operand.dtype, operand.is_view) == ("float32", False)
        assert operand.array.tobytes() == VALUES.tobytes()
        y = operand.wrap(operand.array + 1)
        assert type(y) is type(x)
        assert (y.index, y.name, y.attrs) == (x.index, x.name, {"unit": "dB"})
        assert y.values.tobytes() == (VALUES + 1).tobytes()
    assert read_array(frame).wrap(VALUES).columns == ["a"]


def test_mixed_columns_of_pandas_are_refused() -> None:
    frame = DataFrame(VALUES, columns=["a", "b"])
    frame.dtypes = [np.dtype("f4"), np.dtype("i8"), np.dtype("f4")]
    told = (
        "x has columns of float32 and int64: pass columns of one type, as x[[...]], or one, x[...]"
    )
    assert refused(frame) == told
    frame.dtypes = []
    assert refused(frame).startswith("x has columns of no type: ")
    for dtype, numpy in (("Float32", "f4"), ("Int8", "i1"), ("UInt8", "u1")):
        nullable = type("Nullable", (str,), {"numpy_dtype": np.dtype(numpy)})(dtype)
        assert refused(Series(VALUES, dtype=nullable), "z") == (
            f"z has pandas' dtype {dtype}, and arrays have no NA: "
            f'pass z.to_numpy("{np.dtype(numpy)}")'
        )
    nothing = type("Nullable", (str,), {"numpy_dtype": np.dtype(bool)})("boolean")
    for dtype in (nothing, "string"):
        operand = read_array(Series(VALUES, dtype=dtype))
        assert (operand.dtype, operand.array.shape) == (str(dtype), (3,))
        assert operand.wrap(VALUES) is VALUES


def test_a_series_of_polars() -> None:
    operand = read_array(PolarsSeries("gain", VALUES))
    assert (operand.dtype, operand.is_view) == ("float32", False)
    y = operand.wrap(operand.array + 1)
    assert (type(y), y.name, y.values.tobytes()) == (PolarsSeries, "gain", (VALUES + 1).tobytes())
    assert refused(PolarsSeries("gain", VALUES, nulls=1), "z") == (
        "z has nulls, and arrays have none: pass z.fill_null(...) or z.drop_nulls()"
    )
    text = read_array(PolarsSeries("gain", VALUES, nulls=1, is_numeric=False))
    assert text.dtype.startswith("namespace")


#: Forms, and a dtype that they can have beside their own, and one that they cannot.
OF_OTHER_DTYPES: dict[str, tuple[Callable[[], Any], str, str]] = {
    "number": (lambda: 2.5, "int64", "float32"),
    "numbers": (lambda: [0.5, 1.5], "int64", "bfloat16"),
    "bytes": (lambda: bytes(3), "uint8", "int8"),
    "memoryview": (lambda: VALUES.data, "float16", "bfloat16"),
    "array.array": (lambda: array.array("d", [0.5]), "int32", "float16"),
    "pandas": (lambda: Series(VALUES), "float16", "bfloat16"),
    "polars": (lambda: PolarsSeries("gain", VALUES), "float64", "float8_e5m2"),
    "torch": (lambda: Tensor(VALUES), "int8", "uint16"),
    "openvino": (lambda: OpenVINOTensor(Type("f32"), (3,)), "bfloat16", "float8_e4m3fnuz"),
    "standard": (lambda: StandardArray(VALUES), "float16", "bfloat16"),
}


@pytest.mark.parametrize(("make", "can", "cannot"), OF_OTHER_DTYPES.values(), ids=OF_OTHER_DTYPES)
def test_result_of_another_dtype_has_the_form_if_that_can_have_it(
    make: Callable[[], Any], can: str, cannot: str
) -> None:
    x = make()
    operand = read_array(x)
    for name, kind in ((can, type(x)), (cannot, None)):
        y = np.zeros(operand.array.shape, name if "int" in name else getattr(ml_dtypes, name, name))
        made = operand.wrap(y)
        if kind is None:
            assert np.asarray(made).dtype == y.dtype
            assert isinstance(made, np.ndarray | np.generic)
        elif name == "int64":
            assert {type(number) for number in np.ravel(made).tolist()} == {int}
        else:
            assert type(made) is (int if x == 2.5 else kind)


def test_an_array_of_xarray_is_that_of_its_data() -> None:
    operand = read_array(DataArray(VALUES))
    assert np.shares_memory(operand.array, VALUES)
    assert operand.is_view
    y = operand.wrap(VALUES + 1)
    assert (type(y), y.name, y.data.tobytes()) == (DataArray, "gain", (VALUES + 1).tobytes())
    assert refused(DataArray("text")) == "x.data is a str, not an array of numbers"


@pytest.mark.parametrize(
    ("dtype", "numpy"),
    [("float32", "f4"), ("bfloat16", "u2"), ("float8_e5m2", "u1"), ("float8_e4m3fnuz", "u1")],
)
def test_a_tensor_of_torch_is_viewed_by_its_patterns(dtype: str, numpy: str) -> None:
    values = np.arange(3, dtype=numpy)
    operand = read_array(Tensor(values, f"torch.{dtype}"))
    assert (operand.dtype, operand.array.dtype) == (dtype, BY_NAME[dtype].numpy)
    assert operand.is_view
    assert np.shares_memory(operand.array, values)
    y = operand.wrap(operand.array)
    assert (type(y), y.dtype) == (Tensor, f"torch.{dtype}")


def test_tensors_of_torch_that_are_no_arrays() -> None:
    assert read_array(Tensor(VALUES, "torch.complex32")).dtype == "complex32"
    assert read_array(Tensor(VALUES, "torch.int4")).dtype == "torch.int4"
    learning, sparse, remote = Tensor(VALUES), Tensor(VALUES), Tensor(VALUES)
    learning.requires_grad = True
    assert "y requires a gradient" in refused(learning, "y")
    sparse.layout = "sparse"
    remote.device = SimpleNamespace(type="cuda")
    for x in (sparse, remote):
        assert refused(x).endswith("make it strided and on the CPU")


@pytest.mark.parametrize(("own", "dtype"), [("f32", "float32"), ("bf16", "bfloat16")])
def test_a_tensor_of_openvino(own: str, dtype: str) -> None:
    x = OpenVINOTensor(Type(own), (3,))
    operand = read_array(x)
    assert (operand.dtype, operand.array.dtype) == (dtype, BY_NAME[dtype].numpy)
    assert np.shares_memory(operand.array, x.data)
    y = operand.wrap(np.ones(3, BY_NAME[dtype].numpy))
    assert (type(y), y.element_type, y.shape) == (OpenVINOTensor, own, (3,))
    assert y.data.tobytes() == np.ones(3, BY_NAME[dtype].numpy).tobytes()
    assert read_array(OpenVINOTensor(Type("i4"), (3,))).dtype == "openvino.Type.i4"


def test_pandas_index_is_refused_with_the_call_that_works() -> None:
    index = type("Index", (), {"__module__": "pandas.core"})()
    with pytest.raises(InvalidArgumentType, match=r"^z is a pandas Index: pass z\.to_numpy\(\)$"):
        read_array(index, "z")


def test_an_out_is_memory_that_is_filled() -> None:
    assert read_out(VALUES).array is VALUES
    assert np.shares_memory(read_out(VALUES.data).array, VALUES)
    with pytest.raises(InvalidArgument, match=r"^out is a pandas Series, which is not"):
        read_out(Series(VALUES))
    for x in (2.5, np.float32(2.5), [2.5]):
        assert not read_array(x).is_view


class Standard:
    """An array of the array API standard, or of DLPack alone."""

    def __init__(self, error: type[Exception] | None = None, device: int = 1) -> None:
        self._error, self._device = error, device

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._device, 0

    def __dlpack__(self, **options: Any) -> Any:
        if self._error:
            raise self._error("no such type")
        return VALUES.__dlpack__(**options)


class Narrow(Standard):
    """One of a type that NumPy's DLPack lacks."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return VALUES.astype(BY_NAME["bfloat16"].numpy)


def test_dtypes_beyond_dlpack_are_read_as_arrays() -> None:
    assert np.shares_memory(read_array(Standard()).array, VALUES)
    for error in (BufferError, RuntimeError):
        assert read_array(Narrow(error)).dtype == "bfloat16"
        assert refused(Standard(error)) == "the Standard cannot be read: no such type"
    assert refused(Narrow(device=2)) == "the Narrow is not in main memory: copy it to the CPU"
