"""A script in which constants are computed, and from which the makings of one term can be cut.

A program that is run on symbols has addresses, counters and branches beside its operands. They
are constants of the run. What is left are terms of the operands alone, each of them once.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable

from .smt import BOOL, Script, Sort, Term, bits, truth

_NAME = re.compile(r"\b[tv]\d+\b")
_ORDER: dict[str, Callable[..., int]] = {
    name: getattr(operator, name) for name in ("lt", "le", "gt", "ge")
}
#: Operations of constants, by the values that they have without a sign, and with one.
_UNSIGNED: dict[str, Callable[..., int]] = {
    **{name: getattr(operator, name) for name in ("add", "sub", "mul", "xor", "neg", "eq", "ne")},
    **{name: getattr(operator, f"{name}_") for name in ("and", "or")},
    **{f"u{name}": function for name, function in _ORDER.items()},
    "not": operator.invert,
    "shl": lambda value, by: value << min(by, 64),
    "lshr": operator.rshift,
}
_SIGNED: dict[str, Callable[..., int]] = {
    **{f"s{name}": function for name, function in _ORDER.items()},
    "ashr": lambda value, by: value >> (by if 0 <= by < 64 else 64),
}


class Folded(Script):
    """Operations of constants are constants, and a term is defined once.

    Floats are not: of the NaNs of two equal operations each has its own pattern.
    """

    def __init__(self) -> None:
        super().__init__()
        self._once: dict[tuple[Sort, str], Term] = {}
        self._texts: dict[str, tuple[Sort, str]] = {}
        self._required: dict[str, list[str]] = {}

    def define(self, sort: Sort, text: str) -> Term:
        if sort.kind == "float" or (sort, text) not in self._once:
            made = self._once[sort, text] = Term(self._name("t"), sort)
            self._texts[made.text] = sort, text
        return self._once[sort, text]

    def declare(self, sort: Sort, name: str | None = None) -> Term:
        made = Term(self._name("v"), sort)
        self._texts[made.text] = sort, ""
        return made

    def require(self, truth: Term) -> None:
        """Assume a truth about the unknown that it names first."""
        unknown = next(name for name in _NAME.findall(truth.text) if not self._texts[name][1])
        self._required.setdefault(unknown, []).append(truth.text)

    def apply(self, name: str, *operands: Term, flush: bool = False) -> Term:
        known = [operand.literal for operand in operands if operand.literal is not None]
        sort, table = operands[0].sort, _SIGNED if name in _SIGNED else _UNSIGNED
        if len(known) < len(operands) or name not in table:
            return super().apply(name, *operands, flush=flush)
        if table is _SIGNED:
            top = 1 << sort.width - 1
            known = [(value ^ top) - top for value in known]
        value = table[name](*known)
        if sort == BOOL or isinstance(value, bool):
            return truth(bool(value & 1))
        return bits(value, sort.width)

    def select(self, choice: Term, yes: Term, no: Term) -> Term:
        if choice.literal is not None or yes == no:
            return yes if choice.literal or yes == no else no
        return super().select(choice, yes, no)

    def extract(self, value: Term, low: int, width: int) -> Term:
        if value.literal is not None:
            return bits(value.literal >> low, width)
        return value if width == value.sort.width else super().extract(value, low, width)

    def join(self, *parts: Term) -> Term:
        whole, width = 0, 0
        for part in reversed(parts):
            if part.literal is None:
                return parts[0] if len(parts) == 1 else super().join(*parts)
            whole |= part.literal << width
            width += part.sort.width
        return bits(whole, width)

    def resize(self, value: Term, width: int, *, signed: bool) -> Term:
        if value.literal is not None and value.sort != BOOL and signed:
            top = 1 << value.sort.width - 1
            return bits((value.literal ^ top) - top, width)
        return super().resize(value, width, signed=signed)

    def cut(self, x: Term, y: Term) -> tuple[Script, Term, Term]:
        """A script of what ``y`` is made of alone, in which ``x`` is called so."""
        script = Script()
        made = {x.text: script.declare(x.sort, "x")}
        required: list[str] = []

        def named(text: str) -> str:
            """A text of terms, each of which is made first, in the order of their need."""
            pending = _NAME.findall(text)[::-1]
            while pending:
                sort, inner = self._texts[pending[-1]]
                missing = [name for name in _NAME.findall(inner) if name not in made]
                if pending[-1] in made:
                    pending.pop()
                elif missing:
                    pending += reversed(missing)
                elif inner:
                    made[pending.pop()] = script.define(sort, renamed(inner))
                else:
                    required.extend(self._required.get(pending[-1], ()))
                    made[pending.pop()] = script.declare(sort)
            return renamed(text)

        def renamed(text: str) -> str:
            return _NAME.sub(lambda found: made[found[0]].text, text)

        result = y._replace(text=named(y.text))
        for text in required:  # which grows
            script.require(Term(named(text), BOOL))
        return script, made[x.text], result
