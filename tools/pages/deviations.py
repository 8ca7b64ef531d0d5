"""The list of deviations in docs/explanation.md, from those of verify."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from tensor_round_verify.conversions.deviations import CASTS, DEQUANTIZATIONS, QUANTIZATIONS
from tensor_round_verify.deviation import Deviation
from tensor_round_verify.deviations import DEVIATIONS

from .marks import between_marks

CONVERSIONS = """
Casts and quantizations may also have:

"""
BLOCKS = """
Deviations of blocks have their effect as their name.
"""


def page(current: str) -> str:
    """docs/explanation.md with the list anew."""
    found = _by_name((*DEVIATIONS, *CASTS, *QUANTIZATIONS, *DEQUANTIZATIONS))
    rounding = {one.name for one in DEVIATIONS}
    made = "".join(_lines({name: told for name, told in found.items() if name in rounding}))
    made += CONVERSIONS
    made += "".join(_lines({name: told for name, told in found.items() if name not in rounding}))
    return between_marks(current, made + BLOCKS)


def _lines(found: Mapping[str, tuple[str, list[str]]]) -> Iterator[str]:
    """A line for each effect, and those that have it."""
    names: dict[str, list[str]] = {}
    for name, (about, where) in found.items():
        names.setdefault(about, []).append(f"`{name}`{_told(where)}")
    yield from (f"- {', '.join(named)}: {about}\n" for about, named in names.items())


def _by_name(deviations: Iterable[Deviation]) -> Mapping[str, tuple[str, list[str]]]:
    """The effect and the public reports of each; some are of rounding and of conversions."""
    found: dict[str, tuple[str, list[str]]] = {}
    for one in deviations:
        _, where = found.setdefault(one.name, (one.about, []))
        if "gh:" in one.source and not any(one.source in other for other in where):
            where.append(one.source)
    return found


def _told(where: list[str]) -> str:
    return f" ({', '.join(where)})" if where else ""
