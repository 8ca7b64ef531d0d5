"""make prove: every text but PTX is proved here, and every planted fault is found."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest

from proof import claims as claims_of
from proof import llvm, texts
from proof.__main__ import main
from proof.cases import Case
from proof.claims import CASTS, CODES, WAYS, Found, claims, ptx_texts
from proof.faults import FAULTS
from proof.prove import TABLES, Job, ask, prove
from proof.smt import Script, Sort
from proof.solve import solve
from tensor_round.contract.dtypes import DType
from tensor_round.contract.functions import RoundToIntegral
from tensor_round.contract.rounding import Rounding
from tensor_round_service.backends.cpu.llvm_kernels import module_text
from tensor_round_verify.reference import FLOATS, ROUNDINGS

pytestmark = pytest.mark.slow

PTX = Path(__file__).parent / "ptx"
#: The faults that no operand shows, for the text is refused.
REFUSED = {
    "PTX: additions rounded toward zero",
    "PTX: results beside their place",
    "PTX: a result that depends on its thread",
}
#: CuPy always compiles with -ftz: ``make prove`` has the CUDA C without it.
LONG = ("reference", "LLVM IR", "LLVM IR -O3", "CUDA C -ftz")
#: NumPy's texts in all directions. Those whose proofs take longest in one for each dtype, so that
#: each way is proved in every direction, but for two that take 7 seconds and show no other one;
#: by ``make prove`` each dtype, too.
HERE = [
    *(Job(*rest) for rest in product(("NumPy", "NumPy words", TABLES), FLOATS, ROUNDINGS)),
    *(
        Job(way, dtype, ROUNDINGS[(number + place) % len(ROUNDINGS)])
        for (place, way), (number, dtype) in product(enumerate(LONG), enumerate(FLOATS))
        if not (way == "CUDA C -ftz" and dtype in ("float8_e5m2", "float8_e4m3fnuz"))
    ),
]
#: Conversions that have all between them: each kind of type, direction and overflow, every width.
#: Here each is proved of one way, or two, by ``make prove`` of all.
CONVERSIONS = [
    ("float32 to float8_e4m3fn", "ties_to_even"),
    ("float32 to float8_e4m3fn", "toward_positive saturated"),
    ("float32 to float16", "toward_negative"),
    ("float64 to float32", "ties_to_away"),
    ("bfloat16 to float8_e5m2fnuz", "ties_to_even"),
    ("float16 to float64", "toward_zero"),
    ("float32 to float8_e8m0fnu", "toward_zero"),
    ("float8_e8m0fnu to float4_e2m1fn", "ties_to_even saturated"),
    ("float32 to int4", "ties_to_even"),
    ("float64 to uint64", "toward_positive"),
    ("uint64 to float32", "ties_to_even"),
    ("int64 to float16", "toward_negative saturated"),
    ("int16 to uint8", "toward_zero saturated"),
    ("uint64 to int32", "toward_zero"),
    ("float32", "ties_to_even 5 10"),
    ("float8_e4m3fn", "ties_to_away 3 1"),
]
#: A quotient that stays as it is, and one that is rounded to the type of a scale.
QUANTIZATIONS = [
    ("float32 to int16", "ties_to_even by float32"),
    ("float32 to uint4", "ties_to_even by float16"),
]


def words(job: Job) -> str:
    return "-".join(f"{job.way} {job.types} {job.manner}".split())


@pytest.mark.parametrize(
    "job",
    [
        Job(way, *case)
        for (place, way), (number, case) in product(enumerate(CASTS), enumerate(CONVERSIONS))
        if (number - place) % len(CASTS) in (0, 2) and CASTS[way][1](Case.named(*case))
    ]
    + [Job(way, *case) for way, case in product(CODES, QUANTIZATIONS)],
    ids=words,
)
def test_a_conversion_or_quantization_is_proved(job: Job) -> None:
    (outcome,) = prove([job])
    assert outcome.claims
    assert not outcome.problems


def test_rounding_to_odd_loses_nothing_only_with_two_bits_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    job = Job("casts: by odd", "float32 to float16", "ties_to_even")
    assert not prove([job])[0].claims
    monkeypatch.setitem(claims_of.ODD, "float32", ("bfloat16", 11))
    (problem,) = prove([job])[0].problems
    assert problem.startswith("wrong for 0x")


@pytest.mark.parametrize("job", HERE, ids=words)
def test_a_text_is_proved(job: Job) -> None:
    (outcome,) = prove([job])
    assert not outcome.problems
    # Three of NumPy's ways are for some types; tables have no claims for a solver.
    pairs = ("bfloat16", *(["float16"] if "ties" in job.manner else []))
    partial = {"NumPy": job.types in ("float32", "float64"), "NumPy words": job.types in pairs}
    assert bool(outcome.claims) == {**partial, TABLES: False}.get(job.way, True)


@pytest.mark.parametrize(
    "job", [Job(way, case.types, case.manner, PTX) for way, case in ptx_texts(PTX)], ids=words
)
def test_recorded_ptx_is_proved(job: Job) -> None:
    (outcome,) = prove([job])
    assert outcome.claims
    assert not outcome.problems


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(fault: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--ptx", str(PTX), "--fault", fault, "--processes", "1"]) == 1
    said = capsys.readouterr().out
    assert ("not understood" if fault in REFUSED else "wrong for 0x") in said


def test_a_solver_that_gives_up_proves_nothing() -> None:
    job = Job("CUDA C", "float64", "ties_to_away")
    (outcome,) = prove([job], limit=0.01)
    assert "the solver says unknown" in outcome.problems[0]


def test_assumptions_that_cannot_be_met_prove_nothing() -> None:
    (claim,) = claims(WAYS["LLVM IR"], Case.named("float32", "toward_zero"), texts.unchanged)
    empty = type(claim)(*(f"{script}(assert false)\n" for script in (claim.denial, claim.control)))
    assert ask(empty, "bitwuzla", 60)[0] == "its control is unsat"


def test_a_dtype_that_is_not_in_the_table_is_proved() -> None:
    made = DType("float16_e6m9", np.dtype("<u2"), 16, True, 6, 9, 31, "ieee", None)
    text = module_text(made, prefetch=False)

    def way(case: Case, edit: texts.Edit) -> Found:
        return llvm.stores(edit(text), str(case.function.rounding))

    for rounding in Rounding:
        case = Case(RoundToIntegral(rounding), made, made)
        (claim,) = claims(way, case, texts.unchanged)
        assert ask(claim, "bitwuzla", 60)[0] == ""
    (wrong,) = claims(way, case, lambda text: text.replace("fsub", "fadd"))
    assert ask(wrong, "bitwuzla", 60)[0].startswith("wrong for 0x")


def test_elements_that_the_optimizer_moves_as_they_are_are_claimed() -> None:
    right, wrong = (
        Case.named("int8 to uint8", manner) for manner in ("toward_zero", "toward_zero saturated")
    )

    def way(case: Case, edit: texts.Edit) -> Found:
        for text in texts.optimized_conversions(right):
            assert "@llvm.memmove" in text
            yield from llvm.elements(text, case.source.width, case.target.width, texts.LANES)

    assert {ask(claim, "bitwuzla", 60)[0] for claim in claims(way, right, texts.unchanged)} == {""}
    found = [ask(claim, "bitwuzla", 60)[0] for claim in claims(way, wrong, texts.unchanged)]
    assert found
    assert all(problem.startswith("wrong for 0x") for problem in found)


def test_only_texts_know_the_service() -> None:
    folder = Path(__file__).parents[3] / "tools" / "proof"
    known = {path.name for path in folder.glob("*.py") if "tensor_round_s" in path.read_text()}
    assert known == {"cases.py", "texts.py", "write_ptx.py"}


def test_the_operand_that_is_found_is_of_x() -> None:
    script = Script()
    x = script.declare(Sort("bits", 32), "x")
    half = script.real(0.5, 32)
    script.require(script.apply("eq", script.number(x), half))
    assert solve("\n".join(script.lines)).operand == 0x3F000000
