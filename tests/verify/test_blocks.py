"""Block formats verified: right quantizers pass, and each planted deviation is named."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tensor_round_verify as conformance
from support.cases.array_cases import Array
from support.command_line import command
from tensor_round.contract.errors import CannotVerify, InvalidArgument
from tensor_round_verify.conversions.blocks.deviations import (
    DEQUANTIZATIONS,
    QUANTIZATIONS,
    fitting,
)
from tensor_round_verify.conversions.blocks.formats import FORMATS
from tensor_round_verify.conversions.blocks.operands import LAYOUTS, Layout, block_operands
from tensor_round_verify.conversions.blocks.quantization import (
    BlockDequantization,
    BlockQuantization,
    Blocks,
)
from tensor_round_verify.conversions.patterns import Operands
from tensor_round_verify.reference import bits_type

#: The types of ml_dtypes with the same elements.
TYPES = {
    "mxfp8_e4m3": ml_dtypes.float8_e4m3fn,
    "mxfp8_e5m2": ml_dtypes.float8_e5m2,
    "mxfp6_e2m3": ml_dtypes.float6_e2m3fn,
    "mxfp6_e3m2": ml_dtypes.float6_e3m2fn,
    "mxfp4_e2m1": ml_dtypes.float4_e2m1fn,
    "nvfp4": ml_dtypes.float4_e2m1fn,
}

NARROWEST = "mxfp4_e2m1"
FP4: Any = {"operator": "block_quantize", "dtypes": ["mxfp4_e2m1", "float32"]}
FP4_BACK: Any = {"operator": "block_dequantize", "dtypes": ["mxfp4_e2m1", "float32"]}


def quantizer(**changes: Any) -> Callable[..., tuple[Array, Array]]:
    """A function that quantizes, right but for these changes."""

    def kernel(x: Array, format: str, scale: str, tensor_scale: float = 1.0) -> Any:
        rule = changes.get("rounding", scale)
        rest = {name: value for name, value in changes.items() if name != "rounding"}
        how = BlockQuantization(x.dtype.name, format, rule, float(tensor_scale), **rest)
        size = how.format.size
        more = np.zeros((*x.shape[:-1], -x.shape[-1] % size), x.dtype)
        whole = np.concatenate([x, more], axis=-1)
        blocks = whole.reshape(-1, size).view(bits_type(x.dtype.name))
        values = whole.reshape(-1, size)
        amax, tops = (each.max(1).view(blocks.dtype) for each in (np.abs(values), values))
        scales = how.results(Operands(amax, amax, np.full(amax.size, -1), tops))
        stored = np.repeat(scales.astype(np.int64), size)
        codes = how.results(Operands(blocks.reshape(-1), np.repeat(amax, size), stored))
        shape = (*x.shape[:-1], -1)
        return scales.reshape(shape), codes.reshape(whole.shape)[..., : x.shape[-1]]

    return kernel


def named(kernel: Any, format: str, scale: str, source: str = "float32") -> set[str]:
    """The names in the explanations of what is wrong."""
    report = conformance.verify(
        kernel, operator="block_quantize", dtypes=[format, source], scale=scale
    )
    assert not report.right
    return {
        " + ".join(one.name for one in verdict.explanation.deviations)
        for verdict in report.verdicts
        if verdict.wrong
        if verdict.explanation.complete or pytest.fail(str(verdict))
    }


@pytest.mark.parametrize("format", TYPES)
def test_elements_have_the_values_of_ml_dtypes(format: str) -> None:
    fmt = FORMATS[format]
    codes = np.arange(1 << fmt.bits, dtype=np.uint8)
    want = codes.view(TYPES[format]).astype(np.float64)
    np.testing.assert_array_equal(fmt.decoded(codes), want)
    assert (np.signbit(fmt.decoded(codes)) == np.signbit(want))[~np.isnan(want)].all()


@pytest.mark.parametrize("format", FORMATS)
def test_codes_are_those_of_exact_fractions(format: str) -> None:
    """By brute force: the nearest of all elements, in rational arithmetic."""
    fmt, draw = FORMATS[format], np.random.default_rng(1)
    how = BlockQuantization("float32", format, fmt.rules[0])
    rows = block_operands(how).reshape(-1, fmt.size)
    rows = rows[draw.choice(len(rows), 40)]
    scales, codes = quantizer()(rows, format, fmt.rules[0])
    table = [Fraction(float(value)) for value in fmt.numbers.table]
    middles = [(a + b) / 2 for a, b in pairwise(table)]
    for row, scale, found in zip(rows, scales[:, 0], codes, strict=True):
        unit = Fraction(float(fmt.scales[scale]))
        amax = max(abs(Fraction(float(x))) for x in row)
        if not fmt.is_nv and amax and scale > 0:
            # OCP MX v1.0, section 6.3: the largest power of two that is not above amax.
            power = Fraction(2) ** (int(np.frexp(fmt.numbers.largest)[1]) - 1)
            assert unit * power <= amax < 2 * unit * power
        for x, code in zip(row, found, strict=True):
            magnitude = abs(Fraction(float(x)))
            want = sum(magnitude > middle * unit for middle in middles)
            if want < len(middles) and magnitude == middles[want] * unit:
                want += want % 2
            if unit:
                assert code == fmt.signed(np.array([want]), np.array([np.signbit(x)]))[0]


@pytest.mark.parametrize(
    ("format", "scale"),
    [
        pytest.param(name, rule, marks=pytest.mark.sweep if beside and name != NARROWEST else ())
        for name, fmt in FORMATS.items()
        for beside, rule in enumerate(fmt.rules)
    ],
)
def test_right_quantizers_pass(format: str, scale: str) -> None:
    """Of all types of operands with the narrowest format, of one with the others."""
    is_own = scale == FORMATS[format].rules[0]
    sources = ["float32"] if is_own else ["float16"]
    if is_own and format == NARROWEST:
        sources += ["float16", "bfloat16"]
    dtypes: Any = [format, *sources]
    report = conformance.verify(quantizer(), operator="block_quantize", dtypes=dtypes, scale=scale)
    assert report.right, str(report)
    assert len(report.verdicts) == len(sources) * (2 if format == "nvfp4" else 1)
    assert not report.lacking


@pytest.mark.parametrize("deviation", QUANTIZATIONS, ids=str)
def test_wrong_quantizers_are_named(deviation: Any) -> None:
    tried = 0
    for format in ("mxfp4_e2m1", "nvfp4", "mxfp6_e3m2"):
        scale = FORMATS[format].rules[0]
        of_tensor = deviation.name == "reciprocal by parts" or deviation.aspect == "tensor"
        tensor_scale = 0.0123 if of_tensor else 1.0
        how = BlockQuantization("float32", format, scale, tensor_scale)
        if deviation not in fitting(how):
            continue
        found = named(quantizer(**deviation.changes), format, scale)
        # With no scale of the tensor its reciprocal is 1.
        assert found - {"reciprocal"} == {deviation.name} - {"reciprocal"}, format
        tried += 1
        break
    # The scale of floor is what an MX format has when nothing is said.
    assert tried or deviation.changes in ({"rounding": "floor"}, {"divisor": "floor"})


def test_two_deviations_are_named_together() -> None:
    kernel = quantizer(element_rounding="ties_to_away", least_divisor="normal")
    both = "ties away + divided by 2^-126 where the scale is 2^-127"
    assert named(kernel, "mxfp6_e3m2", "floor") == {both}


def changed(change: Callable[[Array, Array, Array], Any]) -> Any:
    """A quantizer of whose operand, right scales and codes ``change`` makes something else."""
    return lambda x, format, scale: change(x, *quantizer()(x, format, scale))


def by_halves(codes: Array) -> Array:
    """A byte of each half of a block of 32, as ggml has them."""
    blocks = codes.reshape(*codes.shape[:-1], -1, 2, 16)
    return (blocks[..., 0, :] | blocks[..., 1, :] << 4).reshape(*codes.shape[:-1], -1)


MISPLACED: dict[str, Callable[[Array, Array, Array], Any]] = {
    "nibbles swapped": lambda x, scales, codes: (scales, codes[..., 1::2] | codes[..., ::2] << 4),
    "nibbles by halves of a block": lambda x, scales, codes: (scales, by_halves(codes)),
    "scales of the next block": lambda x, scales, codes: (np.roll(scales, -1), codes),
    "scales of the block before": lambda x, scales, codes: (np.roll(scales, 1), codes),
    "scales transposed": lambda x, scales, codes: (scales.T.reshape(scales.shape), codes),
}


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_blocks_at_wrong_places_are_one_fault_with_a_name(layout: Layout) -> None:
    report = conformance.verify(changed(MISPLACED[layout.name]), **FP4, scale="floor")
    (verdict,) = report.verdicts
    assert verdict.explanation.deviations == (layout,), str(report)
    assert verdict.causes == ()
    kernel = decoder()

    def misread(scales: Array, codes: Array, *others: Any) -> Array:
        return kernel(*layout.read((scales, codes)), *others)

    report = conformance.verify(misread, **FP4_BACK)
    assert {verdict.explanation.deviations for verdict in report.verdicts} == {(layout,)}
    assert {verdict.causes for verdict in report.verdicts} == {()}, str(report)


def test_blocks_at_wrong_places_hide_no_other_fault() -> None:
    """Ties away beside scales of the next block, which arrays of several dimensions lack."""

    def kernel(x: Array, format: str, scale: str) -> Any:
        scales, codes = quantizer(element_rounding="ties_to_away")(x, format, scale)
        return np.roll(scales, -1), codes * np.uint8(x.ndim < 3)

    (verdict,) = conformance.verify(kernel, **FP4).verdicts
    names = [one.name for one in verdict.explanation.deviations]
    assert names == ["scales of the next block", "ties away"]
    (cause,) = verdict.causes
    assert cause.startswith("wrong for other ranks: (4, 16, 512)")


def test_two_codes_may_share_a_byte() -> None:
    kernel = changed(lambda x, scales, codes: (scales, codes[..., ::2] | codes[..., 1::2] << 4))
    report = conformance.verify(kernel, **FP4)
    assert report.right
    # An odd number of codes has no such form.
    assert "shape (12, 253)" in report.verdicts[0].refused[0]


def test_stochastic_rounding_is_reported() -> None:
    draw = np.random.default_rng(1)

    def kernel(x: Array, format: str, scale: str) -> Any:
        moved = x * (1 + draw.uniform(-0.1, 0.1, x.shape).astype(x.dtype))
        return quantizer()(moved, format, scale)

    (verdict,) = conformance.verify(kernel, **FP4).verdicts
    assert "stochastic" in verdict.causes[0]


def test_results_that_depend_on_the_shape_are_reported() -> None:
    kernel = changed(lambda x, scales, codes: (scales + (x.ndim == 1), codes))
    (verdict,) = conformance.verify(kernel, **FP4).verdicts
    assert not verdict.wrong
    assert not verdict.right
    assert verdict.causes == ("arrays of every length are wrong",)


def test_blocks_with_nan_and_infinity_are_reported_apart() -> None:
    report = conformance.verify(quantizer(), **FP4)
    assert report.verdicts[0].specials[1] == ("mxfp4_e2m1: the scale of a block with inf is 2^-3")
    assert "the scale of a block with nan is" in str(report)


def decoder(**changes: Any) -> Callable[..., Array]:
    """A function that decodes, right but for these changes."""

    def kernel(
        scales: Array, codes: Array, format: str, dtype: Any, tensor_scale: float = 1.0
    ) -> Array:
        how = BlockDequantization(format, dtype.name, tensor_scale=float(tensor_scale), **changes)
        each = np.repeat(scales.reshape(-1), how.format.size)
        bits = how.results(Operands(codes.reshape(-1), each, each.astype(np.int64)))
        return bits.view(dtype).reshape(codes.shape)

    return kernel


@pytest.mark.parametrize(
    ("dtypes", "count"),
    [(["float32"], 8), ([NARROWEST], 3), pytest.param([], 24, marks=pytest.mark.sweep)],
)
def test_right_decoders_pass(dtypes: Any, count: int) -> None:
    report = conformance.verify(decoder(), operator="block_dequantize", dtypes=dtypes)
    assert report.right, str(report)
    assert len(report.verdicts) == count


@pytest.mark.parametrize("deviation", DEQUANTIZATIONS, ids=str)
def test_wrong_decoders_are_named(deviation: Any) -> None:
    # Products of E2M1 and a power of two have no more bits than bfloat16.
    some = ("mxfp4_e2m1", "nvfp4", "mxfp8_e4m3")
    possible = [
        f
        for f in some
        if deviation in fitting(BlockDequantization(f, "float32", tensor_scale=0.0123))
    ]
    format = "nvfp4" if deviation.aspect == "product" else possible[0]
    asked: Any = {"operator": "block_dequantize", "dtypes": [format]}
    report = conformance.verify(decoder(**deviation.changes), **asked)
    found = {
        one.name
        for verdict in report.verdicts
        if verdict.wrong
        for one in verdict.explanation.deviations
    }
    assert found == {deviation.name}, str(report)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.sweep if fmt.bits > 6 else ())
        for name, fmt in FORMATS.items()
    ],
)
def test_every_code_of_every_scale_survives_the_way_back(name: str) -> None:
    fmt = FORMATS[name]
    how = BlockQuantization("float32", name, fmt.rules[0])
    x = block_operands(how)
    scales, codes = quantizer()(x, name, fmt.rules[0])
    back = decoder()(scales, codes, name, np.dtype(np.float32))
    again = quantizer()(back, name, fmt.rules[0])
    same = (again[0] == scales).repeat(fmt.size, axis=1)
    # A block whose amax was rounded up, or down to nothing, has another scale.
    assert (again[1] == codes)[same].all()
    assert same.mean() > 0.6


@pytest.mark.parametrize(
    ("asked", "error", "message"),
    [
        (
            {"scale": "up"},
            InvalidArgument,
            r'scale: got "up"; did you mean ceil\? Accepted: floor, ceil, rceil, even',
        ),
        ({"dtypes": ["int8"]}, CannotVerify, "block_quantize supports only float32, float16"),
    ],
)
def test_unknown_rules_and_types_fail(asked: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        conformance.verify(quantizer(), **{**FP4, **asked})


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (lambda x: x, "returned no pair of scales and codes"),
        (lambda x: (x, x), r"returned scales float32 of shape .*, not bytes of shape"),
        (lambda x: (x[:, :8].astype(np.uint8), x[:, 1:].astype(np.uint8)), "returned codes uint8"),
    ],
)
def test_results_of_another_form_have_no_verdict(result: Any, message: str) -> None:
    with pytest.raises(CannotVerify, match=message), np.errstate(all="ignore"):
        conformance.verify(lambda x, *_: result(x), **FP4)


def test_functions_without_a_format_are_not_judged_in_it() -> None:
    def kernel(x: Array, format: str, scale: str) -> Blocks:
        if format != "mxfp4_e2m1":
            raise NotImplementedError(f"no {format}")
        found: Blocks = quantizer()(x, format, scale)
        return found

    report = conformance.verify(kernel, operator="block_quantize", dtypes=["float32"])
    assert [verdict.dtype for verdict in report.verdicts] == ["float32 to mxfp4_e2m1"]
    assert {row.why for row in report.lacking} >= {"NotImplementedError: no mxint8"}


def test_types_that_a_function_does_not_take_are_not_judged() -> None:
    def kernel(x: Array, format: str, scale: str) -> Any:
        if x.dtype == ml_dtypes.bfloat16:
            raise TypeError("ufunc 'frexp' not supported for the input types")
        return quantizer()(x, format, scale)

    report = conformance.verify(kernel, operator="block_quantize", dtypes=["mxfp4_e2m1"])
    assert [row.dtype for row in report.lacking] == ["bfloat16 to mxfp4_e2m1"]
    assert len(report.verdicts) == 2


def test_nvfp4_has_one_rule_whatever_is_asked_for() -> None:
    asked: Any = {"dtypes": ["nvfp4", "float16"], "scale": "floor"}
    report = conformance.verify(quantizer(), operator="block_quantize", **asked)
    assert report.right
    assert {verdict.rounding for verdict in report.verdicts} == {"even"}


PROGRAM = """
import sys, numpy as np
x = np.frombuffer(sys.stdin.buffer.read(), np.float32).reshape(-1, 32)
amax = np.abs(x).max(1)
scale = np.where(amax > 0, np.frexp(np.where(amax > 0, amax, 1))[1] - 1 - 2, -127).clip(-127)
y = np.abs(np.ldexp(x.astype(np.float64), -scale[:, None]))
code = sum((y > m).astype(int) | (y == m) * (i % 2)
           for i, m in enumerate([.25, .75, 1.25, 1.75, 2.5, 3.5, 5]))
code = code | np.signbit(x) << 3
sys.stdout.buffer.write((scale + 127).astype(np.uint8).tobytes() + code.astype(np.uint8).tobytes())
"""


def test_a_program_is_verified_on_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "mx.py").write_text(PROGRAM)
    program = f"cmd:{sys.executable} {tmp_path}/mx.py {{format}}"
    options = ("--operator", "block_quantize", "--dtype", "mxfp4_e2m1", "--json")
    done = command("verify", program, *options, "--scale", "floor")
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["verdicts"]
    assert [(row["dtype"], row["rounding"], row["wrong"]) for row in rows] == [
        ("float32 to mxfp4_e2m1", "floor", 0),
    ]
    assert rows[0]["refused"] == ["an array of shape (12, 253): a program has no shapes"]
    wrong = command("verify", program, *options, "--scale", "ceil")
    assert wrong.returncode == 2
    assert b"does not name {scale}" in wrong.stderr
