"""The kernels compiled by LLVM: what becomes of them where they cannot be had, or are wrong.

That they round right is every backend test's subject.
"""

from __future__ import annotations

import itertools
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from support.cases.backend_calls import sample_pair
from support.cases.linear_calls import linear_call, operands_of, payload_of
from tensor_round.contract.dtypes import BY_NAME, DTYPES, ROUNDABLE, DType
from tensor_round.contract.functions import (
    Convert,
    Dequantize,
    FakeQuantize,
    Linear,
    Quantize,
    RoundToIntegral,
)
from tensor_round.contract.rounding import Rounding
from tensor_round_service.backends.cpu.backend import NumpyBackend
from tensor_round_service.backends.known_results import KNOWN_CONVERSIONS
from tensor_round_service.backends.select import compiled_kernels
from tensor_round_service.engine.readiness import rounds_correctly

if compiled_kernels() is None:
    pytest.skip("llvmlite is not installed (extra compiled)", allow_module_level=True)

from tensor_round_service.backends.cpu import llvm, llvm_quantization, quantization
from tensor_round_service.backends.cpu.llvm import LlvmKernels, llvm_kernels
from tensor_round_service.backends.cpu.llvm_conversions import conversion_text
from tensor_round_service.backends.cpu.llvm_kernels import module_text
from tensor_round_service.backends.cpu.loops import Loop

#: Rounds through whatever backend is chosen, and says on what it is compiled.
ROUND = """
import logging, numpy as np
from support.cases.backend_calls import run_flat, sample_pair
from tensor_round_service.backends.select import select_backend
logging.basicConfig(level=logging.INFO, format="%(message)s")
backend = select_backend("numpy", log=print)
if backend._kernels: backend._kernels.wait()
patterns, right = sample_pair("bfloat16", "ties_to_away")
assert np.array_equal(run_flat(backend, "bfloat16", "ties_to_away", patterns), right)
"""


#: Those that are rounded.
FLOATS = [dtype for dtype in ROUNDABLE if dtype.is_float]


def integral(kernels: LlvmKernels, dtype: DType, rounding: Rounding) -> Loop | None:
    """The kernel that rounds to integral values, once it is compiled."""
    key = RoundToIntegral(rounding), dtype, dtype
    kernels.ask(*key)
    kernels.wait()
    return kernels.get(*key)


def output_of(preparation: str) -> str:
    """What a process that rounds says, on both of its outputs."""
    done = subprocess.run(
        [sys.executable, "-c", preparation + ROUND],
        check=True,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={"PYTHONPATH": "tests"},
    )
    return done.stdout


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda dtype: dtype.name)
def test_kernel_writes_no_byte_beyond_its_results(dtype: DType) -> None:
    for count in (1, 7, 512):
        nbytes = dtype.nbytes(count)
        for found in llvm.compiled(dtype).values():
            memory = np.full(nbytes + 4096, 0xAA, np.uint8)
            found.run(np.zeros(nbytes, np.uint8), memory[:nbytes], count)
            assert not memory[:nbytes].any()
            assert (memory[nbytes:] == 0xAA).all()


def test_there_are_kernels_for_floats_alone() -> None:
    kernels = llvm_kernels()
    assert [d for d in ROUNDABLE if integral(kernels, d, Rounding.TIES_TO_EVEN)] == FLOATS


def test_common_types_are_compiled_at_the_start_and_others_when_asked_for() -> None:
    kernels = LlvmKernels()
    kernels.wait()
    key = RoundToIntegral(Rounding.TIES_TO_EVEN)
    assert all(kernels.get(key, dtype, dtype) for dtype in llvm.COMMON)
    rare = BY_NAME["float8_e5m2fnuz"]
    assert kernels.get(key, rare, rare) is None
    kernels.ask(key, rare, rare)
    kernels.wait()
    assert kernels.get(key, rare, rare) is not None


def test_log_names_the_compiled_kernels_at_start() -> None:
    assert output_of("").startswith("kernels: compiled by LLVM ")


def test_without_llvmlite_numpy_rounds() -> None:
    assert output_of("import sys; sys.modules['llvmlite'] = None\n") == ""


def test_kernels_of_other_processors_are_right_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the prefetch where this processor goes without, and the other way round."""

    def other(dtype: DType, *, prefetch: bool) -> str:
        return module_text(dtype, prefetch=not prefetch)

    monkeypatch.setattr(llvm, "module_text", other)
    kernels = LlvmKernels()
    kernels.wait()
    assert all(integral(kernels, dtype, rounding) for dtype in FLOATS for rounding in Rounding)


@pytest.mark.skipif(sys.platform != "linux", reason="PR_SET_MDWE is Linux's")
def test_where_no_new_code_may_run_numpy_rounds() -> None:
    """As under systemd's MemoryDenyWriteExecute."""
    deny = "import ctypes; assert ctypes.CDLL(None).prctl(65, 1, 0, 0, 0) == 0\n"
    assert "NumPy's (LLVM's cannot be used: this process may not make" in output_of(deny)


def test_a_kernel_that_gives_one_other_bit_is_not_used(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """That of one direction is another's; those before it stay in use."""

    def swapped(dtype: DType, *, prefetch: bool) -> str:
        text = module_text(dtype, prefetch=prefetch)
        return text.replace("llvm.ceil", "llvm.floor") if dtype.name == "bfloat16" else text

    monkeypatch.setattr(llvm, "module_text", swapped)
    kernels = LlvmKernels()
    kernels.wait()
    assert "bfloat16 toward_positive differs from NumPy's" in caplog.text
    for name, used in (("float32", True), ("bfloat16", False)):
        assert (integral(kernels, BY_NAME[name], Rounding.TOWARD_POSITIVE) is not None) is used


def test_text_that_llvm_does_not_understand_leaves_numpy(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(llvm, "module_text", lambda dtype, *, prefetch: "nonsense")
    kernels = LlvmKernels()
    kernels.wait()
    assert integral(kernels, BY_NAME["float32"], Rounding.TIES_TO_EVEN) is None
    assert "LLVM's cannot be used" in caplog.text


@pytest.mark.parametrize("rounding", Rounding)
@pytest.mark.parametrize("dtype", FLOATS, ids=lambda dtype: dtype.name)
def test_every_length_rounds_all_and_no_more(dtype: DType, rounding: Rounding) -> None:
    """Up to twice what the widest vector loop takes at once, in place and apart."""
    kernels = llvm_kernels()
    kernels.wait()
    kernel = integral(kernels, dtype, rounding)
    assert kernel is not None
    patterns, right = (each[-600:] for each in sample_pair(dtype.name, rounding))
    if dtype.is_sub_byte:
        patterns, right = (
            np.resize(each[::2] | each[1::2] << 4, 200) for each in (patterns, right)
        )
    in_a_group = 2 if dtype.is_sub_byte else 1
    for count in range(len(patterns)):
        source, apart = patterns.copy(), patterns.copy()
        wanted = np.concatenate([right[:count], patterns[count:]])
        run = source.view(np.uint8)[: count * dtype.itemsize]
        kernel.run(run, apart.view(np.uint8)[: run.size], count * in_a_group)
        np.testing.assert_array_equal(source, patterns)
        np.testing.assert_array_equal(apart, wanted)
        kernel.run(run, run, count * in_a_group)
        np.testing.assert_array_equal(source, wanted)


def test_a_conversion_is_compiled_when_it_is_first_asked_for() -> None:
    """NumPy serves meanwhile; what has no text is not asked for again."""
    kernels = LlvmKernels()
    function, types = Convert(Rounding.TIES_TO_AWAY), (BY_NAME["float32"], BY_NAME["bfloat16"])
    found = []
    for key in (function, *types), (Convert(Rounding.TOWARD_ZERO), *types):
        assert kernels.get(*key) is None
        kernels.ask(*key)
        kernels.wait()
        found.append(kernels.get(*key))
    assert None not in found
    kernels.ask(function, *types)
    kernels.wait()
    assert kernels.get(function, *types) is found[0]
    without_text = Convert(Rounding.TOWARD_ZERO), BY_NAME["int64"], BY_NAME["float64"]
    for _ in range(2):
        kernels.ask(*without_text)
        kernels.wait()
        assert kernels.get(*without_text) is None


def test_callers_have_so_many_conversions_compiled_and_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(llvm, "MOST_ASKED", 2)
    kernels = LlvmKernels()
    function, source = Convert(Rounding.TIES_TO_EVEN), BY_NAME["float32"]
    targets = [BY_NAME[name] for name in ("bfloat16", "float16", "int8", "float8_e5m2")]
    for target in targets:
        kernels.ask(function, source, target)
    kernels.wait()
    found = [kernels.get(function, source, target) is not None for target in targets]
    assert found == [True, True, False, False]


QUANTIZATIONS: tuple[tuple[Linear, str, str, str], ...] = (
    (Quantize(), "float32", "float32", "int8"),
    (Quantize(), "float16", "float16", "uint16"),
    (Quantize(saturates=False), "bfloat16", "float8_e8m0fnu", "float4_e2m1fn"),
    (Dequantize(), "int4", "float32", "bfloat16"),
    (Dequantize(), "float8_e4m3fnuz", "float16", "float32"),
    (FakeQuantize(through=BY_NAME["uint8"]), "float16", "float16", "float16"),
)


@pytest.mark.parametrize(("function", "types"), [(f, types) for f, *types in QUANTIZATIONS])
def test_a_quantization_computes_every_length_and_no_more(
    function: Linear, types: list[str]
) -> None:
    """With a parameter for each row, and for each column."""
    source, scale, target = map(BY_NAME.__getitem__, types)
    stage = llvm.proved_stage(
        llvm.compiled_stage(function, source, scale, target), function, source, scale, target
    )
    for length in range(1, 72):
        for counts in ((3, 1), (1, length)):
            has_point = not quantization.code_type(function, source, target).is_float
            call = linear_call(function, types, (3, length), counts, has_point=has_point)
            payload = np.frombuffer(payload_of(call, operands_of(call, length)), np.uint8)
            nbytes, made = call.output.byte_length, []
            for each in (stage, None):
                memory = np.full(nbytes + 4096, 0xAA, np.uint8)
                quantization.Linear(call, payload, each).run(payload, memory[:nbytes], 3 * length)
                made.append(memory)
            np.testing.assert_array_equal(made[0], made[1])


@pytest.mark.sweep
@pytest.mark.parametrize("source", DTYPES, ids=lambda dtype: dtype.name)
@pytest.mark.parametrize(
    "function",
    [
        Dequantize(),
        Quantize(saturates=False),
        *(Quantize(precision=BY_NAME[name]) for name in ("float16", "float32")),
        *(FakeQuantize(through=BY_NAME[name]) for name in ("int8", "uint16", "int4")),
    ],
)
def test_every_quantization_that_has_a_text_is_proved(function: Linear, source: DType) -> None:
    for scale, target in itertools.product(DTYPES, DTYPES):
        key = function, source, scale, target
        if quantization.has_linear_text(*key):
            llvm.proved_stage(llvm.compiled_stage(*key), *key)


@pytest.mark.parametrize(
    ("number", "right", "wrong"),
    [(0, "fdiv", "fmul"), (0, "ogt", "olt"), (1, "%odd = and", "%odd = or"), (3, "ashr", "lshr")],
)
def test_a_quantization_that_gives_one_other_bit_is_not_used(
    monkeypatch: pytest.MonkeyPatch, number: int, right: str, wrong: str
) -> None:
    def changed(*key: Any, prefetch: bool) -> str:
        text = llvm_quantization.linear_text(*key, prefetch=prefetch)
        assert right in text
        return text.replace(right, wrong)

    monkeypatch.setattr(llvm, "linear_text", changed)
    function, *types = QUANTIZATIONS[number]
    key = function, *map(BY_NAME.__getitem__, types)
    with pytest.raises(llvm.CannotCompile, match=f"{types[0]} to {types[2]} by"):
        llvm.proved_stage(llvm.compiled_stage(*key), *key)


def test_a_judge_has_no_conversion_compiled_and_judges_those_that_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kernels = LlvmKernels()
    backend = NumpyBackend(1, kernels)
    assert rounds_correctly(backend)
    kernels.wait()
    known = KNOWN_CONVERSIONS[-2]
    key = known.call.function, known.call.input.dtype, known.call.output.dtype
    assert kernels.get(*key) is None
    kernels.ask(*key)
    kernels.wait()
    assert kernels.get(*key) is not None
    assert rounds_correctly(backend)
    wrong = Loop(lambda source, target, count: target.fill(0), 1 << 20)
    monkeypatch.setitem(kernels._conversions, key, wrong)
    assert not rounds_correctly(backend)
    backend.close()


def test_a_conversion_that_gives_one_other_bit_is_not_used(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def cut(*key: Any, **processor: bool) -> str:
        text = conversion_text(*key, **processor)
        return text.replace("%sum = add ", "%sum = or ")

    monkeypatch.setattr(llvm, "conversion_text", cut)
    kernels = LlvmKernels()
    key = Convert(Rounding.TIES_TO_EVEN), BY_NAME["float32"], BY_NAME["bfloat16"]
    for _ in range(2):
        kernels.ask(*key)
        kernels.wait()
        assert kernels.get(*key) is None
    assert "float32 to bfloat16 ties_to_even differs from NumPy's" in caplog.text
    assert integral(kernels, BY_NAME["float32"], Rounding.TIES_TO_EVEN) is not None
