"""Arrays of many kinds, seen as NumPy arrays and given back as what they were."""

from __future__ import annotations

import array
import ctypes
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tensor_round import InvalidArgument
from tensor_round.contract.array_forms import read_array, writable_array

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


OUTS: dict[str, tuple[Any, str | None]] = {
    "fits": (np.zeros((2, 3), "f4"), None),
    "other-order": (np.zeros((3, 2), "f4").T, None),
    "other-byte-order": (np.zeros((2, 3), ">f4"), None),
    "gaps": (np.zeros((2, 6), "f4")[:, ::2], None),
    "backwards": (np.zeros((2, 3), "f4")[::-1], None),
    "memoryview": (np.zeros((2, 3), "f4").data, None),
    "other-shape": (np.zeros((3, 2), "f4"), "out has shape"),
    "broadcastable": (np.zeros((1, 3), "f4"), "out has shape"),
    "other-dtype": (np.zeros((2, 3), "i4"), "out has dtype int32, x has float32"),
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
def test_an_out_must_fit(out: Any, why: str | None) -> None:
    operand = read_array(np.ones((2, 3), "f4"))
    if why is None:
        assert writable_array(out, operand).shape == (2, 3)
    else:
        with pytest.raises(InvalidArgument, match=why):
            writable_array(out, operand)


MASKS = {
    "some": [True, False, True],
    "none": np.ma.nomask,
}


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
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
