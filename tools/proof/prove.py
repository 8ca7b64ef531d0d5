"""Texts proved: their claims, each once, with its control."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import product
from pathlib import Path
from typing import Any

from . import texts
from .cases import ROUNDINGS, Case, conversions, quantizations
from .claims import CASTS, CODES, WAYS, Claim, by_ptx, claims, ptx_texts
from .faults import FAULTS
from .smt import Refused
from .solve import solve

#: Look-up tables are compared with the reference entry by entry, which needs no solver.
TABLES = "NumPy tables"
#: Why a control does not hold; if it is unsatisfiable, the assumptions cannot be met.
CONTROL = "its control is {}"
IMPOSSIBLE = CONTROL.format("unsat")
#: Applies a function to items: ``map``, or that of an executor.
Each = Callable[..., Iterator[Any]]


@dataclass(frozen=True)
class Job:
    """A text: the way, and the words of a :class:`~.cases.Case`; a fault to plant, or ""."""

    way: str
    types: str
    manner: str
    ptx: Path | None = None
    fault: str = ""


@dataclass
class Outcome:
    """A text's claims, and why any is not proved; ``seconds`` are those of the solver."""

    job: Job
    claims: list[Claim] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    seconds: float = 0


def all_jobs(ptx: Path | None = None) -> list[Job]:
    """Every text: without a folder of PTX, all but PTX."""
    kinds = [*product([*WAYS, TABLES], ROUNDINGS), *product(CODES, quantizations())]
    kinds += ptx_texts(ptx) if ptx else ()
    for way, (_, goes) in CASTS.items():
        kinds += [(way, case) for case in conversions() if goes(case)]
    return [Job(way, case.types, case.manner, ptx) for way, case in kinds]


def job_of(fault: str, ptx: Path | None = None) -> Job:
    """The text that a fault is planted in."""
    found = FAULTS[fault]
    return Job(found.way, found.types, found.manner, ptx, fault)


def prove(
    jobs: Sequence[Job], solver: str = "bitwuzla", limit: float = 600, each: Each = map
) -> list[Outcome]:
    """Prove texts. Each distinct claim is asked once, also if several texts make it."""
    casts = [job for job in jobs if job.way in CASTS]
    rest = [job for job in jobs if job.way not in CASTS]
    settled = each(settle, casts, [solver] * len(casts), [limit] * len(casts))
    outcomes: list[Outcome] = list(each(read, rest))
    distinct = list(dict.fromkeys(claim for outcome in outcomes for claim in outcome.claims))
    count = len(distinct)
    answered = each(ask, distinct, [solver] * count, [limit] * count)
    answers = dict(zip(distinct, answered, strict=True))
    for outcome in outcomes:
        for problem, seconds in (answers[claim] for claim in outcome.claims):
            outcome.seconds += seconds
            outcome.problems += [problem] if problem else []
    return [*outcomes, *settled]


def settle(job: Job, solver: str, limit: float) -> Outcome:
    """Read and prove one text. Of its claims the digests are kept: all would take gigabytes."""
    outcome = read(job)
    answers = [ask(claim, solver, limit) for claim in outcome.claims]
    # A combination of branches that no block takes has no control; another one must have it.
    allowed = ["", IMPOSSIBLE] if any(not problem for problem, _ in answers) else [""]
    outcome.problems += [problem for problem, _ in answers if problem not in allowed]
    outcome.seconds = sum(seconds for _, seconds in answers)
    digests = (sha256(claim.denial.encode()).hexdigest() for claim in outcome.claims)
    outcome.claims = [Claim(digest, "") for digest in digests]
    return outcome


def read(job: Job) -> Outcome:
    """The claims about a text; a dtype that does not go this way has none."""
    outcome, case = Outcome(job), Case.named(job.types, job.manner)
    edit = FAULTS[job.fault].plant if job.fault else texts.unchanged
    try:
        if job.way == TABLES:
            wrong = texts.table_faults(case, edit)
            outcome.problems += [f"wrong for {operand:#x}" for operand in wrong[:1]]
        else:
            if job.way in CASTS:
                way, _ = CASTS[job.way]
            else:
                way = (WAYS | CODES).get(job.way) or by_ptx(job.ptx or Path(), job.way)
            outcome.claims = claims(way, case, edit)
    except Refused as refused:
        outcome.problems.append(f"not understood: {refused}")
    return outcome


def ask(claim: Claim, solver: str, limit: float) -> tuple[str, float]:
    """Why a claim is not proved, or "", and the seconds that the solver took."""
    denial = solve(claim.denial, solver, limit)
    if denial.operand is not None:
        return f"wrong for {denial.operand:#x}", denial.seconds
    if denial.result != "unsat":
        return f"the solver says {denial.result} after {denial.seconds:.0f} s", denial.seconds
    control = solve(claim.control, solver, limit)
    seconds = denial.seconds + control.seconds
    return ("" if control.result == "sat" else CONTROL.format(control.result)), seconds
