"""Arrays of libraries that are not installed here, as stand-ins with what is asked of them.

The libraries themselves round in `tests/interop/oracles`.
"""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tensor_round.contract.array_forms import form_name, form_of, read_array, read_out
from tensor_round.contract.dtypes import BY_NAME
from tensor_round.contract.errors import InvalidArgument, InvalidArgumentType

X = np.array([0.5, -1.5, 2.5], np.float32)


class Series:
    """pandas.Series, and as much of polars.Series."""

    def __init__(self, values: Any, index: Any = None, name: Any = None, dtype: Any = None) -> None:
        self.values, self.index, self.name = np.asarray(values), index, name
        self.dtype = self.values.dtype if dtype is None else dtype
        self.shape, self.attrs = self.values.shape, {}

    def to_numpy(self) -> Any:
        return self.values.copy()


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
    openvino = SimpleNamespace(Tensor=OpenVINOTensor, Shape=tuple)
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
    assert form_of(Series(X)) == ("pandas", "Series")
    assert form_of(DataFrame(X, columns=[1])) == ("pandas", "DataFrame")
    assert form_of(type("Mine", (Series,), {})(X)) == ("pandas", "Series")
    assert (form_name([]), form_name(Series(X))) == ("list", "pandas Series")


def test_a_series_and_a_frame_of_pandas() -> None:
    series = Series(X, index=["a", "b", "c"], name="gain")
    frame = DataFrame(X.reshape(3, 1), index=[7, 8, 9], columns=["a"])
    for x in (series, frame):
        x.attrs = {"unit": "dB"}
        operand = read_array(x)
        assert (operand.dtype, operand.is_view) == ("float32", False)
        assert operand.array.tobytes() == X.tobytes()
        y = operand.wrap(operand.array + 1)
        assert type(y) is type(x)
        assert (y.index, y.name, y.attrs) == (x.index, x.name, {"unit": "dB"})
        assert y.values.tobytes() == (X + 1).tobytes()
    assert read_array(frame).wrap(X).columns == ["a"]


def test_mixed_columns_of_pandas_are_refused() -> None:
    frame = DataFrame(X, columns=["a", "b"])
    frame.dtypes = [np.dtype("f4"), np.dtype("i8"), np.dtype("f4")]
    told = (
        "x has columns of float32 and int64: pass columns of one type, as x[[...]], or one, x[...]"
    )
    assert refused(frame) == told
    frame.dtypes = []
    assert refused(frame).startswith("x has columns of no type: ")
    for dtype, numpy in (("Float32", "f4"), ("Int8", "i1"), ("UInt8", "u1")):
        nullable = type("Nullable", (str,), {"numpy_dtype": np.dtype(numpy)})(dtype)
        assert refused(Series(X, dtype=nullable), "z") == (
            f"z has pandas' dtype {dtype}, whose NA no array has: "
            f'pass z.to_numpy("{np.dtype(numpy)}")'
        )
    nothing = type("Nullable", (str,), {"numpy_dtype": np.dtype(bool)})("boolean")
    for dtype in (nothing, "string"):
        operand = read_array(Series(X, dtype=dtype))
        assert (operand.dtype, operand.array.shape) == (str(dtype), (3,))
        assert operand.wrap(X) is X


def test_a_series_of_polars() -> None:
    operand = read_array(PolarsSeries("gain", X))
    assert (operand.dtype, operand.is_view) == ("float32", False)
    y = operand.wrap(operand.array + 1)
    assert (type(y), y.name, y.values.tobytes()) == (PolarsSeries, "gain", (X + 1).tobytes())
    assert refused(PolarsSeries("gain", X, nulls=1), "z") == (
        "z has nulls, which no array has: pass z.fill_null(...) or z.drop_nulls()"
    )
    text = read_array(PolarsSeries("gain", X, nulls=1, is_numeric=False))
    assert text.dtype.startswith("namespace")


def test_an_array_of_xarray_is_that_of_its_data() -> None:
    operand = read_array(DataArray(X))
    assert np.shares_memory(operand.array, X)
    assert operand.is_view
    y = operand.wrap(X + 1)
    assert (type(y), y.name, y.data.tobytes()) == (DataArray, "gain", (X + 1).tobytes())
    assert refused(DataArray("text")) == "x.data is a str, not an array of numbers"


@pytest.mark.parametrize(
    ("dtype", "numpy"), [("float32", "f4"), ("bfloat16", "u2"), ("float8_e5m2", "u1")]
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
    assert read_array(Tensor(X, "torch.complex32")).dtype == "complex32"
    learning, sparse, remote = Tensor(X), Tensor(X), Tensor(X)
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
    assert read_out(X).array is X
    with pytest.raises(InvalidArgument, match=r"^out is a pandas Series, which is not"):
        read_out(Series(X))
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
        return X.__dlpack__(**options)


class Narrow(Standard):
    """One of a type that NumPy's DLPack lacks."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return X.astype(BY_NAME["bfloat16"].numpy)


def test_dtypes_beyond_dlpack_are_read_as_arrays() -> None:
    assert np.shares_memory(read_array(Standard()).array, X)
    for error in (BufferError, RuntimeError):
        assert read_array(Narrow(error)).dtype == "bfloat16"
        assert refused(Standard(error)) == "the Standard cannot be read: no such type"
    assert refused(Narrow(device=2)) == "the Narrow is not in main memory: copy it to the CPU"
