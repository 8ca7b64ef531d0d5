"""Which calls are begun before their tensor has all come."""

from __future__ import annotations

import pytest

from support.devices.host_device import HostDevice
from support.devices.host_kernels import NO_COMPILER, compiler
from tensor_round.contract.call import RoundCall
from tensor_round.contract.dtypes import BY_NAME
from tensor_round.contract.layout import Layout
from tensor_round.contract.rounding import Rounding
from tensor_round_service.backends.cpu.backend import NumpyBackend
from tensor_round_service.backends.cuda.backend import CupyBackend
from tensor_round_service.engine.overlap import MIN_BYTES, is_worthwhile

COUNT = MIN_BYTES // 4


def call(input: Layout, output: Layout | None = None) -> RoundCall:
    return RoundCall(Rounding.TIES_TO_EVEN, input, output or input, input.byte_length)


def layout(
    dtype: str = "float32",
    shape: tuple[int, ...] = (COUNT,),
    strides: tuple[int, ...] | None = None,
    byte_length: int | None = None,
) -> Layout:
    return Layout.of(BY_NAME[dtype], shape, strides, byte_length)


@pytest.mark.parametrize(
    ("asked", "suited"),
    [
        pytest.param(call(layout()), True, id="large"),
        pytest.param(call(layout(shape=(COUNT - 1,))), False, id="small"),
        pytest.param(call(layout(shape=(2, COUNT), strides=(1, 2))), True, id="columns"),
        pytest.param(call(layout("int32")), False, id="integers"),
        pytest.param(call(layout(byte_length=MIN_BYTES + 4)), False, id="padded"),
        pytest.param(
            call(layout(shape=(2, COUNT), strides=(1, 2)), layout(shape=(2, COUNT))),
            *(False,),
            id="moved",
        ),
    ],
)
def test_what_suits(asked: RoundCall, suited: bool) -> None:
    backend = NumpyBackend()
    assert is_worthwhile(backend, asked) is suited
    backend.close()


@pytest.mark.skipif(compiler() is None, reason=NO_COMPILER)
def test_a_device_is_given_the_whole() -> None:
    backend = CupyBackend([HostDevice()], NumpyBackend())
    assert not is_worthwhile(backend, call(layout()))
    backend.close()
