"""OpenVINO's Round-5: its constant folding as an oracle, its CPU plugin's faults as they stand."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import openvino as ov
import openvino.passes
import pytest
from openvino import opset5

import tensor_round as tr
from support.cases.array_cases import patterns
from support.cases.oracle_ledger import RANDOM_PATTERNS, Ledger
from tensor_round_verify.patterns import samples
from tensor_round_verify.reference import FLOATS, WIDTHS, Bits, Flags, rounded

ROUNDINGS = {"half_to_even": "ties_to_even", "half_away_from_zero": "ties_to_away"}
ELEMENTS = {
    "float16": ov.Type.f16,
    "bfloat16": ov.Type.bf16,
    "float32": ov.Type.f32,
    "float64": ov.Type.f64,
    "int8": ov.Type.i8,
    "int16": ov.Type.i16,
    "int32": ov.Type.i32,
    "int64": ov.Type.i64,
    "uint8": ov.Type.u8,
    "uint16": ov.Type.u16,
    "uint32": ov.Type.u32,
    "uint64": ov.Type.u64,
}
FOLDED = [
    *("float16", "bfloat16", "float32"),
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
]


def tensor(dtype: str, patterns: Bits) -> ov.Tensor:
    filled = ov.Tensor(ELEMENTS[dtype], ov.Shape([patterns.size]))
    filled.data.view(np.uint8).reshape(-1)[:] = patterns.view(np.uint8)
    return filled


def as_bits(values: np.ndarray[Any, Any], like: Bits) -> Bits:
    return np.ascontiguousarray(values).reshape(-1).view(like.dtype)


def folded(dtype: str, mode: str, patterns: Bits) -> Bits:
    """Round-5 of a constant, evaluated by OpenVINO's reference code while it folds constants."""
    constant = ov.op.Constant(tensor(dtype, patterns))
    model = ov.Model([opset5.round(constant, mode)], [])
    manager = openvino.passes.Manager()
    manager.register_pass(openvino.passes.ConstantFolding())
    manager.run_passes(model)
    node = model.get_results()[0].input_value(0).get_node()
    assert node.get_type_name() == "Constant", "Round was not folded"
    return as_bits(node.data, patterns)


def cpu_plugin(dtype: str, mode: str) -> Callable[[Bits], Bits]:
    """Round-5 as the CPU plugin runs it."""
    parameter = opset5.parameter([-1], ELEMENTS[dtype])
    model = ov.Model([opset5.round(parameter, mode)], [parameter])
    request = ov.Core().compile_model(model, "CPU").create_infer_request()

    def ask(patterns: Bits) -> Bits:
        request.set_input_tensor(tensor(dtype, patterns))
        request.infer()
        return as_bits(request.get_output_tensor().data, patterns)

    return ask


@pytest.mark.parametrize("mode", ROUNDINGS)
@pytest.mark.parametrize("dtype", FOLDED)
def test_constant_folding(ledger: Ledger, dtype: str, mode: str) -> None:
    ask = partial(folded, dtype, mode)
    ledger.compare("OpenVINO, constant folding", dtype, ROUNDINGS[mode], ask)


def wrong_in_the_plugin(dtype: str, mode: str, patterns: Bits) -> Flags:
    """Where adding 0.5 in float32 and truncating is not half_away_from_zero.

    The sum rounds up for the predecessor of 0.5, and to the even neighbour for odd
    integers that have no room for a half. Narrower types come through float32
    unharmed. The sign of -0.0 is lost on the way, and of no other value.
    """
    if mode == "half_to_even":
        return np.zeros(patterns.shape, np.bool_)
    fmt = FLOATS[dtype]
    wrong: Flags = patterns == fmt.sign_bit
    if dtype == "float32":
        magnitudes = np.abs(patterns.view("<f4"))
        wrong |= magnitudes == np.nextafter(np.float32(0.5), np.float32(0))
        wrong |= (magnitudes >= 2**23) & (magnitudes < 2**24) & (magnitudes % 2 == 1)
    return wrong


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy's, of NaNs and infinities
@pytest.mark.parametrize("mode", ROUNDINGS)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_the_cpu_plugin_is_wrong_exactly_where_documented(
    ledger: Ledger, dtype: str, mode: str
) -> None:
    ask = cpu_plugin(dtype, mode)
    wrong = partial(wrong_in_the_plugin, dtype, mode)
    ledger.compare("OpenVINO, CPU plugin", dtype, ROUNDINGS[mode], ask, wrong=wrong)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy's, of NaNs
@pytest.mark.parametrize("mode", ROUNDINGS)
def test_the_cpu_plugin_rounds_float64_in_float32(mode: str) -> None:
    """Why it is no oracle there: it clamps to float32's range, rounds, and widens again."""
    patterns = samples("float64", RANDOM_PATTERNS)
    values = patterns.view("<f8")
    largest = np.finfo(np.float32).max
    narrow = np.clip(values, -largest, largest).astype("<f4")
    narrow_answers = cpu_plugin("float32", mode)(narrow.view("<u4")).view("<f4")
    answers = cpu_plugin("float64", mode)(patterns).view("<f8")
    finite = np.isfinite(values)
    np.testing.assert_array_equal(answers[finite], narrow_answers[finite].astype("<f8"))


@pytest.mark.parametrize("mode", ROUNDINGS)
@pytest.mark.parametrize("dtype", ELEMENTS)
def test_the_client_takes_openvino_s_tensors(dtype: str, mode: str) -> None:
    given = patterns(dtype, 256).view(f"u{WIDTHS[dtype] // 8}")
    x, out = tensor(dtype, given), tensor(dtype, given)
    with tr.Client("local:") as client:
        y = client.round(x, tr.OpenVINORound(mode))
        assert client.round(x, tr.OpenVINORound(mode), out=out) is out
    expected = rounded(given, dtype, ROUNDINGS[mode])
    for result in (y, out):
        assert (result.element_type, result.shape) == (x.element_type, x.shape)
        assert np.array_equal(as_bits(result.data, given), expected)


def test_the_client_refuses_openvino_s_other_types_by_name() -> None:
    x = ov.Tensor(ov.Type.i4, ov.Shape([4]))
    with (
        tr.Client("local:") as client,
        pytest.raises(tr.InvalidDescriptor, match=r'got "openvino\.Type\.i4"'),
    ):
        client.round(x)
