"""The tensors in models: what reaches a node and what leaves it, as runtimes return them."""

from __future__ import annotations

import ctypes
import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tensor_round.contract.dtypes import BY_NAME, from_numpy
from tensor_round.contract.operators.dialects import openvino as openvino_names
from tensor_round.contract.operators.onnx_types import DTYPES as ONNX_DTYPES
from tensor_round.contract.operators.onnx_types import NUMBERS
from tensor_round.contract.operators.operator import name_in

from ..reference import Bits, bits_type

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor's patterns in C order, of bool too; those of another dtype are left out."""

    dtype: str
    shape: tuple[int, ...]
    bits: Bits

    @classmethod
    def of(cls, array: Array) -> Tensor:
        """The tensor in an array, in either byte order."""
        row = from_numpy(array.dtype)
        if array.dtype == np.bool_:
            return cls.of_bytes("bool", array.shape, array.tobytes())
        if row is None:
            return cls.without_bits(str(array.dtype), array.shape)
        packed = np.asarray(array, order="C").astype(row.numpy, copy=False)
        return cls(row.name, array.shape, packed.reshape(-1).view(bits_type(row.name)))

    @classmethod
    def of_bytes(cls, dtype: str, shape: tuple[int, ...], data: Any) -> Tensor:
        """The tensor in a buffer of its bytes; two elements of 4 bits have one."""
        if dtype == "bool":
            return cls(dtype, shape, np.frombuffer(data, np.uint8))
        if dtype not in BY_NAME:
            return cls.without_bits(dtype, shape)
        if BY_NAME[dtype].is_sub_byte:
            pairs = np.frombuffer(data, np.uint8)
            halves = np.stack([pairs & 15, pairs >> 4], axis=1).reshape(-1)
            return cls(dtype, shape, halves[: math.prod(shape)])
        return cls(dtype, shape, np.frombuffer(data, bits_type(dtype)))

    @classmethod
    def without_bits(cls, dtype: str, shape: tuple[int, ...] = ()) -> Tensor:
        """A tensor of a type that is not compared, or a value that is no tensor."""
        return cls(dtype, shape, np.zeros(0, np.uint8))

    @property
    def is_whole(self) -> bool:
        """Whether its patterns are here."""
        return self.dtype == "bool" or self.dtype in BY_NAME

    @property
    def packed(self) -> Bits:
        """The patterns without bits between them: two of 4 bits have a byte."""
        if not BY_NAME[self.dtype].is_sub_byte:
            return self.bits
        pairs = np.append(self.bits & 15, np.zeros(self.bits.size % 2, np.uint8))
        packed: Bits = pairs[::2] | pairs[1::2] << 4
        return packed

    def array(self) -> Array:
        """The elements in an array; for a dtype that is verified alone."""
        return self.bits.view(BY_NAME[self.dtype].numpy).reshape(self.shape)


def tensor_of(value: object) -> Tensor:
    """The tensor that a runtime returned; a sequence or an absent one has no patterns."""
    if isinstance(value, np.ndarray | np.generic):
        return Tensor.of(np.asarray(value))
    return Tensor.without_bits("nothing" if value is None else f"a {type(value).__name__}")


def is_named_by_numpy(array: Array) -> bool:
    """Whether the dtype is NumPy's own; ml_dtypes' are unknown to runtimes."""
    # One of ml_dtypes' has a kind of NumPy's, too.
    return array.dtype.type.__module__ == "numpy"


# Runtimes have no annotations.
def by_onnxruntime(
    session: Any, given: Mapping[str, Array], names: Sequence[str]
) -> dict[str, Tensor]:
    """The outputs of an ONNX Runtime session."""
    import onnxruntime

    feeds = {}
    for name, array in given.items():
        packed = np.asarray(array, order="C")
        if is_named_by_numpy(packed):
            feeds[name] = onnxruntime.OrtValue.ortvalue_from_numpy(packed)
        else:
            tensor = Tensor.of(packed)
            feeds[name] = onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(
                _held(tensor), NUMBERS[tensor.dtype]
            )
    found = session.run_with_ort_values(list(names), feeds)
    return {name: _of_ort_value(value) for name, value in zip(names, found, strict=True)}


def _held(tensor: Tensor) -> Array:
    """The patterns as ONNX Runtime reads them: those of 4 bits from half of the bytes."""
    held = np.zeros_like(tensor.bits)
    held[: tensor.packed.size] = tensor.packed
    return held.reshape(tensor.shape)


def _of_ort_value(value: Any) -> Tensor:
    if not value.has_value():
        return tensor_of(None)
    if not value.is_tensor():
        return Tensor.without_bits(value.data_type())
    kind = value.data_type().removeprefix("tensor(").removesuffix(")").upper()
    dtype, shape = ONNX_DTYPES.get(kind, kind.lower()), tuple(value.shape())
    if dtype in BY_NAME and not BY_NAME[dtype].is_named_by_npy and value.device_name() == "cpu":
        # ONNX Runtime makes no NumPy array of most of these.
        size = value.tensor_size_in_bytes()
        return Tensor.of_bytes(dtype, shape, ctypes.string_at(value.data_ptr(), size))
    if dtype not in BY_NAME and dtype != "bool":
        return Tensor.without_bits(dtype, shape)
    return Tensor.of_bytes(dtype, shape, value.numpy().tobytes())


def for_openvino(array: Array) -> Any:
    """A tensor of OpenVINO with the elements of an array."""
    import openvino

    packed = np.asarray(array, order="C")
    if is_named_by_numpy(packed):
        return openvino.Tensor(packed)
    tensor = Tensor.of(packed)
    element = getattr(openvino.Type, name_in(openvino_names.DTYPES, tensor.dtype))
    own = openvino.Tensor(element, openvino.Shape(list(tensor.shape)))
    own.data.reshape(-1).view(np.uint8)[:] = tensor.packed.view(np.uint8)
    return own


def infer(request: Any) -> None:
    """Run an infer request of OpenVINO on its inputs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NumPy warns of converted NaNs
        request.infer()


def of_openvino(tensor: Any) -> Tensor:
    """The tensor in one of OpenVINO's."""
    kind = tensor.element_type.get_type_name().replace("boolean", "bool")
    dtype, shape = openvino_names.DTYPES.get(kind, kind), tuple(tensor.shape)
    if dtype not in BY_NAME and dtype != "bool":
        return Tensor.without_bits(dtype, shape)
    data = np.array(tensor.data)
    if dtype in BY_NAME and data.nbytes != BY_NAME[dtype].nbytes(math.prod(shape)):
        return Tensor.without_bits(f"{dtype} in {data.dtype}", shape)
    return Tensor.of_bytes(dtype, shape, data.tobytes())
