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

from tensor_round.contract.dtypes import BY_NAME, DType
from tensor_round.contract.functions import Convert, Quantize, ReducePrecision

from . import arrays, c, llvm, ptx, texts
from .cases import Case
from .conversions import coded_operands, is_coded, is_converted, is_reduced, is_rounded_to_odd
from .smt import Script, Sort, Term, bits
from .specification import is_rounded


@dataclass(frozen=True)
class Claim:
    """``denial`` is to be unsatisfiable, and ``control`` satisfiable."""

    denial: str
    control: str


Found = Iterator[tuple[Script, Term, Term]]
Way = Callable[[Case, texts.Edit], Found]


def by_reference(case: Case, edit: texts.Edit) -> Found:
    dtype, run = case.source, texts.round_by_reference(case, edit)

    def traced(branches: arrays.Branches) -> tuple[Term, Term]:
        x, patterns = arrays.block(branches, dtype.bits)
        if dtype.is_sub_byte:
            branches.script.require(branches.script.apply("ult", x, bits(1 << dtype.width, 8)))
        return x, run(patterns).terms()[1]

    return arrays.runs(traced)


def by_numpy(case: Case, edit: texts.Edit) -> Found:
    dtype, run = case.source, texts.round_floats(case, edit)
    if run is None:
        return iter(())

    def traced(branches: arrays.Branches) -> tuple[Term, Term]:
        x, patterns = arrays.block(branches, dtype.bits)
        run(patterns)
        return x, patterns.terms()[1]

    return arrays.runs(traced)


def by_numpy_words(case: Case, edit: texts.Edit) -> Found:
    run = texts.round_words(case, edit)
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
        script.require(_is_right(script, case, x, result))
        return x, result

    return arrays.runs(traced)


def by_llvm(case: Case, edit: texts.Edit) -> Found:
    for text in texts.llvm_texts(case.source):
        yield from llvm.stores(edit(text), str(case.function.rounding))


def by_optimized_llvm(case: Case, edit: texts.Edit) -> Found:
    for text in texts.optimized_texts(case.source):
        yield from llvm.stores(edit(text), str(case.function.rounding))


def by_cuda(case: Case, edit: texts.Edit, *, flush: bool = False) -> Found:
    script = Script()
    program = c.Program(script, edit(texts.cuda_text(case)), flush=flush)
    word = program.type_named("word")
    x = script.declare(word.sort, "x")
    yield script, x, program.call("lanes", c.Value(x, word)).term


def by_flushing_cuda(case: Case, edit: texts.Edit) -> Found:
    return by_cuda(case, edit, flush=True)


def casts_by_cuda(case: Case, edit: texts.Edit) -> Found:
    script = Script()
    program = c.Program(script, edit(texts.cuda_text(case)))
    word = program.type_named("word")
    x = script.declare(Sort("bits", case.source.width), "x")
    operand = script.resize(x, word.sort.width, signed=False)
    result = program.call("converted", c.Value(operand, word)).term
    y = script.extract(result, 0, case.target.width)
    # A carrier has several results, of which none may reach into the next.
    whole = script.resize(y, word.sort.width, signed=False)
    script.demands.append(script.apply("eq", result, whole))
    yield script, x, y


def codes_by_cuda(case: Case, edit: texts.Edit) -> Found:
    """Of a quotient, in the lower bits of ``x``, and a zero point above it."""
    script, target = Script(), case.target
    program = c.Program(script, edit(texts.cuda_codes(case)))
    x = script.declare(Sort("bits", case.source.width + target.width), "x")
    quotient, point = coded_operands(script, case.source, target, x)
    given = script.resize(point, 32, signed=target.is_signed)
    word = c.TYPES["unsigned int"]
    result = program.call("coded", c.Value(quotient, word), c.Value(given, c.INT)).term
    y = script.extract(result, 0, target.width)
    script.demands.append(script.apply("eq", result, script.resize(y, 32, signed=False)))
    yield script, x, y


def casts_by_llvm(case: Case, edit: texts.Edit) -> Found:
    for text in texts.llvm_conversions(case):
        yield from llvm.elements(edit(text), case.source.width, case.target.width, texts.LANES)


def casts_by_optimized_llvm(case: Case, edit: texts.Edit) -> Found:
    for text in texts.optimized_conversions(case):
        yield from llvm.elements(edit(text), case.source.width, case.target.width, texts.LANES)


class _Table:
    """A table of results of the upper halves of float32: any that is right in every entry."""

    def __init__(self, function: Convert, target: DType) -> None:
        self.function, self.target, self.dtype = function, target, target.bits

    def take(self, indices: arrays.Array, out: arrays.Array, mode: str) -> None:
        script, single = indices.script, BY_NAME["float32"]
        for cell, index in zip(out.cells, indices.terms(), strict=True):
            script.demands.append(script.apply("ult", index, bits(1 << 16, index.sort.width)))
            upper = script.extract(index, 0, 16)
            y = script.declare(Sort("bits", self.target.width))
            operand = script.join(upper, bits(0, 16))
            script.require(is_converted(script, self.function, single, self.target, operand, y))
            cell.term = script.resize(y, 8 * self.dtype.itemsize, signed=False)


def casts_by_numpy(case: Case, edit: texts.Edit) -> Found:
    steps = texts.numpy_chain(case, _Table, edit)
    if steps is None:
        return iter(())

    def traced(branches: arrays.Branches) -> tuple[Term, Term]:
        x, made = arrays.block(branches, case.source.bits)
        for step in steps:
            result = arrays.unknown(branches, made.size, step.result)
            step.run(made.view(step.operand), result)
            made = result
        script, (_, whole) = branches.script, made.view(case.target.bits).terms()
        y = script.extract(whole, 0, case.target.width)
        same = script.resize(y, whole.sort.width, signed=False)
        script.demands.append(script.apply("eq", whole, same))
        return x, y

    return arrays.runs(traced)


#: What a type is rounded to odd to, and how many bits of a significand that leaves to others.
ODD = {
    "float32": ("bfloat16", 6),
    "float64": ("float32", 22),
    "int64": ("float64", 51),
    "uint64": ("float64", 51),
}


def casts_by_odd(case: Case, _edit: texts.Edit) -> Found:
    """Not a text, but a theorem: to round to odd first, with two bits more, loses nothing."""
    function, source, target = case
    if not isinstance(function, Convert) or not _fits_odd(case):
        return
    script, between = Script(), BY_NAME[ODD[source.name][0]]
    x = script.declare(Sort("bits", source.width), "x")
    odd, y = (script.declare(Sort("bits", dtype.width)) for dtype in (between, target))
    script.require(is_rounded_to_odd(script, source, between, x, odd))
    script.require(is_converted(script, function, between, target, odd, y))
    yield script, x, y


def _fits_odd(case: Case) -> bool:
    source, target = case.source, case.target
    significand = target.mantissa_bits + 1
    return (
        source is not target
        and target.is_float
        and source.name in ODD
        and significand <= ODD[source.name][1]
    )


#: The ways to round, without PTX, by name.
WAYS: dict[str, Way] = {
    "reference": by_reference,
    "NumPy": by_numpy,
    "NumPy words": by_numpy_words,
    "LLVM IR": by_llvm,
    "LLVM IR -O3": by_optimized_llvm,
    "CUDA C": by_cuda,
    "CUDA C -ftz": by_flushing_cuda,
}
#: The ways to convert, each with the cases that go it.
CASTS: dict[str, tuple[Way, Callable[[Case], bool]]] = {
    "casts: CUDA C": (casts_by_cuda, lambda _case: True),
    "casts: LLVM IR": (casts_by_llvm, texts.has_llvm),
    "casts: LLVM IR -O3": (casts_by_optimized_llvm, texts.has_llvm),
    "casts: NumPy": (casts_by_numpy, lambda case: texts.numpy_chain(case, _Table) is not None),
    "casts: by odd": (casts_by_odd, _fits_odd),
}
#: The ways from quotients to codes.
CODES: dict[str, Way] = {"codes: CUDA C": codes_by_cuda}


def ptx_texts(folder: Path) -> list[tuple[str, Case]]:
    """The ways and cases of files: see ``write_ptx``."""
    found = []
    for path in sorted(folder.glob("*.ptx")):
        types, manner, *kind, _ = path.name.replace("-", " ").split(".")
        case = Case.named(types, manner)
        way = f"PTX {' -'.join(kind)}"
        found.append((way if case.is_rounding else f"casts: {way}", case))
    return sorted(found, key=lambda text: text[0])


def by_ptx(folder: Path, way: str) -> Way:
    """A way by PTX. Raises FileNotFoundError, when it is used, if a case has no file."""
    kind = way.partition("PTX ")[2].replace(" -", ".")

    def by_ptx(case: Case, edit: texts.Edit) -> Found:
        text = (folder / f"{case.file_name}.{kind}.ptx").read_text()
        widths = case.source.width, case.target.width
        return ptx.elements(edit(text), *widths, texts.launches(case))

    return by_ptx


def claims(way: Way, case: Case, edit: texts.Edit) -> list[Claim]:
    """The distinct claims of a way about a case; unrolled loops repeat them."""
    return list(dict.fromkeys(_claim(case, *each) for each in way(case, edit)))


def _is_right(script: Script, case: Case, x: Term, y: Term) -> Term:
    function, source, target = case
    if isinstance(function, Convert):
        return is_converted(script, function, source, target, x, y)
    if isinstance(function, Quantize):
        return is_coded(script, function.precision or source, source, target, x, y)
    if isinstance(function, ReducePrecision):
        return is_reduced(script, function, source, x, y)
    return is_rounded(script, source, str(function.rounding), x, y)


def _claim(case: Case, script: Script, x: Term, y: Term) -> Claim:
    ones = sum(1 << low for low in range(0, y.sort.width, case.target.width))
    wrong = script.apply("xor", y, bits(ones, y.sort.width))
    right = script.all(_is_right(script, case, x, y), *script.demands)
    wrongly_right = _is_right(script, case, x, wrong)
    lines = "\n".join(script.lines)
    return Claim(*(f"{lines}\n(assert (not {t.text}))\n" for t in (right, wrongly_right)))
