"""What is claimed of each text, as scripts for a solver.

A claim has two scripts. The first has an operand for which the text is wrong, and must be
unsatisfiable. The second is its control: the same for a result whose last bit is flipped. It must
be satisfiable, which shows that the assumptions of the first can be met, and that a wrong result
would be found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tensor_round.contract.dtypes import DType
from tensor_round.contract.rounding import Rounding

from . import arrays, c, llvm, ptx, texts
from .smt import Script, Sort, Term, bits
from .specification import is_rounded


@dataclass(frozen=True)
class Claim:
    """``denial`` is to be unsatisfiable, and ``control`` satisfiable."""

    denial: str
    control: str


Found = Iterator[tuple[Script, Term, Term]]
Way = Callable[[DType, Rounding, texts.Edit], Found]


def by_reference(dtype: DType, rounding: Rounding, edit: texts.Edit) -> Found:
    run = texts.round_by_reference(dtype, rounding, edit)

    def traced(branches: arrays.Branches) -> tuple[Term, Term]:
        x, patterns = arrays.block(branches, dtype.bits)
        if dtype.is_sub_byte:
            branches.script.require(branches.script.apply("ult", x, bits(1 << dtype.width, 8)))
        return x, run(patterns).terms()[1]

    return arrays.runs(traced)


def by_numpy(dtype: DType, rounding: Rounding, edit: texts.Edit) -> Found:
    run = texts.round_floats(dtype, rounding, edit)
    if run is None:
        return iter(())

    def traced(branches: arrays.Branches) -> tuple[Term, Term]:
        x, patterns = arrays.block(branches, dtype.bits)
        run(patterns)
        return x, patterns.terms()[1]

    return arrays.runs(traced)


def by_numpy_words(dtype: DType, rounding: Rounding, edit: texts.Edit) -> Found:
    run = texts.round_words(dtype, rounding, edit)
    if run is None:
        return iter(())

    def traced(branches: arrays.Branches) -> tuple[Term, Term]:
        word = Sort("bits", 32)
        x, *scratch = (branches.script.declare(word, name) for name in ("x", None, None))
        words = arrays.Array(branches, [arrays.Cell(x)], np.uint32)
        lanes = arrays.Array(branches, [arrays.Cell(unknown) for unknown in scratch], np.uint32)
        if run(words, lanes):
            return x, words.terms()[0]
        # Left to the table, so it must be as it was. This word, rounded, stands for its result.
        script, result = branches.script, branches.script.declare(word)
        script.demands.append(script.apply("eq", words.terms()[0], x))
        script.require(is_rounded(script, dtype, rounding, x, result))
        return x, result

    return arrays.runs(traced)


def by_llvm(dtype: DType, rounding: Rounding, edit: texts.Edit) -> Found:
    for text in texts.llvm_texts(dtype):
        yield from llvm.stores(edit(text), str(rounding))


def by_optimized_llvm(dtype: DType, rounding: Rounding, edit: texts.Edit) -> Found:
    for text in texts.optimized_texts(dtype):
        yield from llvm.stores(edit(text), str(rounding))


def by_cuda(dtype: DType, rounding: Rounding, edit: texts.Edit, *, flush: bool = False) -> Found:
    script = Script()
    program = c.Program(script, edit(texts.cuda_text(dtype, rounding)), flush=flush)
    word = program.type_named("word")
    x = script.declare(word.sort, "x")
    yield script, x, program.call("lanes", c.Value(x, word)).term


def by_flushing_cuda(dtype: DType, rounding: Rounding, edit: texts.Edit) -> Found:
    return by_cuda(dtype, rounding, edit, flush=True)


#: The ways without PTX, by name.
WAYS: dict[str, Way] = {
    "reference": by_reference,
    "NumPy": by_numpy,
    "NumPy words": by_numpy_words,
    "LLVM IR": by_llvm,
    "LLVM IR -O3": by_optimized_llvm,
    "CUDA C": by_cuda,
    "CUDA C -ftz": by_flushing_cuda,
}


def ptx_ways(folder: Path) -> dict[str, Way]:
    """The ways by PTX, from files ``float16.toward_zero.sm_90.ftz.ptx``, or without ``ftz``.

    Raises FileNotFoundError, when it is used, if a dtype or rounding has no file.
    """
    kinds = sorted({tuple(path.name.split(".")[2:-1]) for path in folder.glob("*.ptx")})
    return {f"PTX {kind[0]}{' -ftz' * (len(kind) > 1)}": _by_ptx(folder, kind) for kind in kinds}


def _by_ptx(folder: Path, kind: tuple[str, ...]) -> Way:
    def by_ptx(dtype: DType, rounding: Rounding, edit: texts.Edit) -> Found:
        path = folder / ".".join((dtype.name, rounding, *kind, "ptx"))
        return ptx.stores(edit(path.read_text()))

    return by_ptx


def claims(way: Way, dtype: DType, rounding: Rounding, edit: texts.Edit) -> list[Claim]:
    """The distinct claims of a way about a dtype and rounding; unrolled loops repeat them."""
    found = way(dtype, rounding, edit)
    return list(dict.fromkeys(_claim(dtype, rounding, *each) for each in found))


def _claim(dtype: DType, rounding: Rounding, script: Script, x: Term, y: Term) -> Claim:
    ones = sum(1 << low for low in range(0, x.sort.width, dtype.width))
    wrong = script.apply("xor", y, bits(ones, y.sort.width))
    right = script.all(is_rounded(script, dtype, rounding, x, y), *script.demands)
    wrongly_right = is_rounded(script, dtype, rounding, x, wrong)
    lines = "\n".join(script.lines)
    return Claim(*(f"{lines}\n(assert (not {t.text}))\n" for t in (right, wrongly_right)))
