"""Solvers that answer scripts: Bitwuzla, and for a second opinion Z3 and cvc5.

An answer is ``unsat``, ``sat`` with the operand, or ``unknown``, which proves nothing.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import NamedTuple

import bitwuzla


class Answer(NamedTuple):
    """What a solver found, the pattern of ``x`` if it is ``sat``, and the seconds of a core."""

    result: str
    operand: int | None
    seconds: float


def by_bitwuzla(script: str, limit: float) -> tuple[str, str]:
    options = bitwuzla.Options()
    options.set(bitwuzla.Option.PRODUCE_MODELS, True)
    options.set(bitwuzla.Option.TIME_LIMIT_PER, int(limit * 1000))
    parser = bitwuzla.Parser(bitwuzla.TermManager(), options)
    parser.parse(script, True, False)
    solver = parser.bitwuzla()
    result = str(solver.check_sat()).lower().rpartition(".")[2]
    if result != "sat":
        return result, ""
    (x,) = (term for term in parser.get_declared_funs() if str(term) == "x")
    return result, str(solver.get_value(x))


def by_z3(script: str, limit: float) -> tuple[str, str]:
    import z3

    solver = z3.Solver()
    solver.set("timeout", int(limit * 1000))
    solver.from_string(script)
    result = str(solver.check())
    if result != "sat":
        return result, ""
    model = solver.model()
    (x,) = (model[name] for name in model if str(name) == "x")
    return result, hex(x.as_long())


def by_cvc5(script: str, limit: float) -> tuple[str, str]:
    import cvc5

    solver = cvc5.Solver()
    solver.setOption("tlimit-per", str(int(limit * 1000)))
    solver.setOption("produce-models", "true")
    solver.setOption("fp-exp", "true")  # floats of 16 bits, which it calls experimental
    parser = cvc5.InputParser(solver)
    parser.setStringInput(cvc5.InputLanguage.SMT_LIB_2_6, script + "(check-sat)\n", "script")
    symbols, result = parser.getSymbolManager(), ""
    while not (command := parser.nextCommand()).isNull():
        result = command.invoke(solver, symbols).strip() or result
    if result != "sat":
        return result, ""
    (x,) = (term for term in symbols.getDeclaredTerms() if str(term) == "x")
    return result, str(solver.getValue(x))


#: By name: a function of a script and a limit in seconds, to the result and the operand's text.
SOLVERS: dict[str, Callable[[str, float], tuple[str, str]]] = {
    "bitwuzla": by_bitwuzla,
    "z3": by_z3,
    "cvc5": by_cvc5,
}


def solve(script: str, solver: str = "bitwuzla", limit: float = 300) -> Answer:
    """Answer a script without ``(check-sat)``, in this process."""
    began = time.process_time()
    result, text = SOLVERS[solver](script, limit)
    if result not in ("sat", "unsat"):
        result = "unknown"
    operand = int(re.sub(r"^#", "0", text), 0) if text else None
    return Answer(result, operand, time.process_time() - began)
