"""make prove: every text but PTX is proved here, and every planted fault is found."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest

from proof import llvm, texts
from proof.__main__ import main
from proof.claims import WAYS, Found, claims, ptx_ways
from proof.faults import FAULTS
from proof.prove import TABLES, Job, all_jobs, ask, prove
from proof.smt import Script, Sort
from proof.solve import solve
from tensor_round.contract.dtypes import BY_NAME, DType
from tensor_round.contract.rounding import Rounding
from tensor_round_service.backends.cpu.llvm_kernels import module_text
from tensor_round_verify.reference import FLOATS

pytestmark = pytest.mark.slow

PTX = Path(__file__).parent / "ptx"
#: Ways and dtypes whose proofs take longest: here in one direction, by ``make prove`` in all.
#: Each way has other dtypes, of which every direction is proved here.
LONG = {
    *product(["CUDA C -ftz"], [name for name in FLOATS if name != "float32"]),
    *product(["LLVM IR -O3"], ["float16", "float8_e4m3fn", "float8_e5m2"]),
    ("LLVM IR", "float16"),
    *product(["reference"], [name for name in FLOATS if name != "float8_e5m2"]),
}
#: CuPy always compiles with -ftz: ``make prove`` has the CUDA C without it.
HERE = [
    job
    for job in all_jobs()
    if job.way != "CUDA C"
    if (job.way, job.dtype) not in LONG or job.rounding is Rounding.TIES_TO_EVEN
]


@pytest.mark.parametrize("job", HERE, ids=lambda j: "-".join((*j.way.split(), j.dtype, j.rounding)))
def test_a_text_is_proved(job: Job) -> None:
    (outcome,) = prove([job])
    assert not outcome.problems
    # Three of NumPy's ways are for some types; tables have no claims for a solver.
    words = ("bfloat16", *(["float16"] if "ties" in job.rounding else []))
    partial = {"NumPy": job.dtype in ("float32", "float64"), "NumPy words": job.dtype in words}
    assert bool(outcome.claims) == {**partial, TABLES: False}.get(job.way, True)


@pytest.mark.parametrize("name", [path.name for path in PTX.iterdir()])
def test_recorded_ptx_is_proved(name: str) -> None:
    dtype, rounding, *_ = name.split(".")
    (way,) = (way for way in ptx_ways(PTX) if name.split(".")[2] in way)
    (outcome,) = prove([Job(way, dtype, Rounding(rounding), PTX)])
    assert outcome.claims
    assert not outcome.problems


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(fault: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--ptx", str(PTX), "--fault", fault, "--processes", "1"]) == 1
    said = capsys.readouterr().out
    assert "not understood" in said if "rounded toward" in fault else "wrong for 0x" in said


def test_a_solver_that_gives_up_proves_nothing() -> None:
    job = Job("CUDA C", "float64", Rounding.TIES_TO_AWAY)
    (outcome,) = prove([job], limit=0.01)
    assert "the solver says unknown" in outcome.problems[0]


def test_assumptions_that_cannot_be_met_prove_nothing() -> None:
    (claim,) = claims(WAYS["LLVM IR"], BY_NAME["float32"], Rounding.TOWARD_ZERO, texts.unchanged)
    empty = type(claim)(*(f"{script}(assert false)\n" for script in (claim.denial, claim.control)))
    assert ask(empty, "bitwuzla", 60)[0] == "its control is unsat"


def test_a_dtype_that_is_not_in_the_table_is_proved() -> None:
    made = DType("float16_e6m9", np.dtype("<u2"), 9, True, None)
    text = module_text(made, prefetch=False)

    def way(dtype: DType, rounding: Rounding, edit: texts.Edit) -> Found:
        return llvm.stores(edit(text), str(rounding))

    for rounding in Rounding:
        (claim,) = claims(way, made, rounding, texts.unchanged)
        assert ask(claim, "bitwuzla", 60)[0] == ""
    (wrong,) = claims(way, made, rounding, lambda text: text.replace("fsub", "fadd"))
    assert ask(wrong, "bitwuzla", 60)[0].startswith("wrong for 0x")


def test_only_texts_know_the_service() -> None:
    folder = Path(__file__).parents[3] / "tools" / "proof"
    known = {path.name for path in folder.glob("*.py") if "tensor_round_s" in path.read_text()}
    assert known == {"texts.py", "write_ptx.py"}


def test_the_operand_that_is_found_is_of_x() -> None:
    script = Script()
    x = script.declare(Sort("bits", 32), "x")
    half = script.real(0.5, 32)
    script.require(script.apply("eq", script.number(x), half))
    assert solve("\n".join(script.lines)).operand == 0x3F000000
