"""NumPy to SMT: functions of the project run as they are, on arrays of symbols.

The arrays implement NumPy's protocols (``__array_ufunc__``, ``__array_function__``) and record
terms where NumPy would compute. An array stands for a block of any length: it has a few cells, and
beside them any number of elements of which nothing is known. What a whole block is asked (its
greatest element, whether all are true) has an answer that its cells allow; a branch on it is tried
both ways. Trusted: NumPy's ufuncs are the operations of the table in :mod:`.smt`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .smt import BOOL, Refused, Script, Sort, Term, bits, truth

_FLOAT_UFUNCS = {"add": "add", "subtract": "sub", "multiply": "mul", "negative": "neg"}
_FLOAT_UFUNCS |= {"rint": "roundNearestTiesToEven", "trunc": "roundTowardZero"}
_FLOAT_UFUNCS |= {"ceil": "roundTowardPositive", "floor": "roundTowardNegative", "isnan": "is_nan"}
_FLOAT_UFUNCS |= {"isinf": "is_infinite"}
_INTEGER_UFUNCS = {"add": "add", "subtract": "sub", "multiply": "mul", "left_shift": "shl"}
_INTEGER_UFUNCS |= {"negative": "neg", "invert": "not"}
_INTEGER_UFUNCS |= {f"bitwise_{name}": name for name in ("and", "or", "xor")}
_TRUTH_UFUNCS = {"bitwise_and": "and", "bitwise_or": "or", "invert": "not"}
#: By the kind of a NumPy type, as the names of :data:`.smt.OPERATIONS`.
_UFUNCS = {"f": _FLOAT_UFUNCS, "u": _INTEGER_UFUNCS, "i": _INTEGER_UFUNCS, "b": _TRUTH_UFUNCS}
_COMPARISONS = {"less": "lt", "less_equal": "le", "greater": "gt", "greater_equal": "ge"}
_COMPARISONS |= {"equal": "eq", "not_equal": "ne"}


class Branches:
    """The answers to what branches ask, in one run; :func:`runs` tries each combination."""

    def __init__(self, script: Script, answers: list[bool]) -> None:
        self.script, self.answers, self.given = script, answers, list[bool]()

    def decide(self, condition: Term) -> bool:
        number = len(self.given)
        answer = self.answers[number] if number < len(self.answers) else True
        self.given.append(answer)
        self.script.require(condition if answer else self.script.apply("not", condition))
        return answer


class Cell:
    """A place in memory; views share it."""

    def __init__(self, term: Term) -> None:
        self.term = term


class Scalar:
    """An element of a block. A comparison of it is a branch."""

    __array_ufunc__ = None

    def __init__(self, branches: Branches, term: Term, dtype: np.dtype[Any]) -> None:
        self.branches, self.term, self.dtype = branches, term, dtype

    def _decided(self, name: str, other: object) -> bool:
        script = self.branches.script
        other_term = _element(script, other, self.dtype)
        return self.branches.decide(_compare(script, name, self.dtype, self.term, other_term))

    def __eq__(self, other: object) -> bool:
        return self._decided("eq", other)

    def __lt__(self, other: object) -> bool:
        return self._decided("lt", other)

    def __gt__(self, other: object) -> bool:
        return self._decided("gt", other)

    def __le__(self, other: object) -> bool:
        return self._decided("le", other)

    def __ge__(self, other: object) -> bool:
        return self._decided("ge", other)


class Extreme:
    """The index of a block's greatest or least element."""

    def __init__(self, name: str) -> None:
        self.name = name


def _sort(dtype: np.dtype[Any]) -> Sort:
    if dtype.kind == "b":
        return BOOL
    return Sort({"f": "float", "u": "bits", "i": "bits"}[dtype.kind], 8 * dtype.itemsize)


def _compare(script: Script, name: str, dtype: np.dtype[Any], *pair: Term) -> Term:
    if name in ("eq", "ne") or dtype.kind == "f":
        if name == "ne" and dtype.kind != "u":
            return script.apply("not", script.apply("eq", *pair))
        return script.apply(name, *pair)
    return script.apply(f"{'s' if dtype.kind == 'i' else 'u'}{name}", *pair)


def _element(script: Script, value: object, dtype: np.dtype[Any]) -> Term:
    """A scalar as an element of an array, where NumPy computes in the array's type."""
    if isinstance(value, Scalar) and value.dtype == dtype:
        return value.term
    if isinstance(value, np.generic) and value.dtype != dtype:
        raise Refused(f"{value.dtype} with {dtype}")
    if dtype.kind == "f" and isinstance(value, int | float | np.floating):
        return script.real(float(value), 8 * dtype.itemsize)
    if dtype.kind == "b" and isinstance(value, bool | np.bool_):
        return truth(bool(value))
    if dtype.kind in "iu" and isinstance(value, int | np.integer):
        limits = np.iinfo(dtype)
        if limits.min <= value <= limits.max:
            return bits(int(value), 8 * dtype.itemsize)
    raise Refused(f"{value!r} in {dtype}")


class Array(np.lib.mixins.NDArrayOperatorsMixin):
    """Some elements of a one-dimensional array; see the module."""

    def __init__(self, branches: Branches, cells: list[Cell], dtype: Any) -> None:
        self.branches, self.cells, self.dtype = branches, cells, np.dtype(dtype)
        self.script = branches.script

    @property
    def size(self) -> int:
        return len(self.cells)

    @property
    def itemsize(self) -> int:
        itemsize: int = self.dtype.itemsize
        return itemsize

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            return Array(self.branches, self.cells[key], self.dtype)
        if isinstance(key, Extreme):
            return self._extreme(key.name)
        raise Refused(f"index {key!r}")

    def __setitem__(self, key: Any, value: Array) -> None:
        if key != slice(None) or value.dtype != self.dtype:
            raise Refused(f"{value.dtype} into {self.dtype} at {key}")
        for cell, term in zip(self.cells, value.terms(), strict=True):
            cell.term = term

    def view(self, dtype: Any) -> Array:
        if np.dtype(dtype).itemsize != self.itemsize:
            raise Refused(f"a view of {self.dtype} as {np.dtype(dtype)}")
        return Array(self.branches, self.cells, dtype)

    def copy(self) -> Array:
        return Array(self.branches, [Cell(cell.term) for cell in self.cells], self.dtype)

    def astype(self, dtype: Any) -> Array:
        """Integers, cut or extended as C does, and floats of another float type."""
        into = np.dtype(dtype)
        if self.dtype.kind == into.kind == "f":
            return self._made(self.cast(into), into)
        if self.dtype.kind not in "iub" or into.kind not in "iu":
            raise Refused(f"{self.dtype} as {into}")
        signed = self.dtype.kind == "i"
        return self._made(
            (self.script.resize(t, 8 * into.itemsize, signed=signed) for t in self.terms()), into
        )

    def argmax(self) -> Extreme:
        return Extreme("ge")

    def argmin(self) -> Extreme:
        return Extreme("le")

    def max(self) -> Scalar:
        return self._extreme("ge")

    def min(self) -> Scalar:
        return self._extreme("le")

    def all(self) -> bool:
        """Whether all of a block are true: then the cells are, else nothing is known of them."""
        made = self.script.declare(BOOL)
        for term in self.terms():
            self.script.require(self.script.apply("or", self.script.apply("not", made), term))
        return self.branches.decide(made)

    def _extreme(self, relation: str) -> Scalar:
        """The greatest or least of a block; a NaN if the block has one."""
        script, extreme = self.script, self.script.declare(_sort(self.dtype))
        for term in self.terms():
            bound = _compare(script, relation, self.dtype, extreme, term)  # false of NaNs
            if self.dtype.kind == "f":
                bound = script.apply("or", bound, script.apply("is_nan", extreme))
            script.require(bound)
        return Scalar(self.branches, extreme, self.dtype)

    def terms(self) -> list[Term]:
        """The cells as elements of this array's type."""
        convert = self.script.number if self.dtype.kind == "f" else self.script.bits
        return [c.term if self.dtype.kind == "b" else convert(c.term) for c in self.cells]

    def _made(self, terms: Any, dtype: Any = None) -> Array:
        return Array(self.branches, [Cell(term) for term in terms], dtype or self.dtype)

    def _operands(self, count: int, dtype: np.dtype[Any], value: Any) -> list[Term]:
        """An operand as so many elements of a type; one element is repeated."""
        if not isinstance(value, Array):
            return [_element(self.script, value, dtype)] * count
        if value.dtype.kind == "b" and dtype.kind in "iu":
            value = value.astype(dtype)
        if value.dtype != dtype or value.size not in (1, count):
            raise Refused(f"{value.size} of {value.dtype} with {count} of {dtype}")
        terms: list[Term] = value.terms()
        return terms * (count if value.size == 1 else 1)

    def _alike(self, *values: Any) -> tuple[np.dtype[Any], list[tuple[Term, ...]]]:
        """The type in which NumPy computes, and the operands of each element."""
        arrays = [value for value in values if isinstance(value, Array)]
        typed = [value.dtype for value in values if isinstance(value, Array | np.generic)]
        dtype, count = np.result_type(*typed), max(array.size for array in arrays)
        columns = [self._operands(count, dtype, value) for value in values]
        return dtype, list(zip(*columns, strict=True))

    def __array_ufunc__(
        self, ufunc: np.ufunc, method: str, *inputs: Any, out: Any = None, **options: Any
    ) -> Array:
        if method != "__call__" or options:
            raise Refused(f"{ufunc.__name__}.{method} {options}")
        dtype, rows = self._alike(*inputs)
        name = ufunc.__name__
        made_type = np.dtype(bool) if name in (*_COMPARISONS, "isnan", "isinf") else dtype
        (target,) = out or (self._made([operands[0] for operands in rows], made_type),)
        if target.dtype != made_type or target.size != len(rows):
            raise Refused(f"{made_type} into {target.dtype}")
        for cell, operands in zip(target.cells, rows, strict=True):
            cell.term = self._computed(name, dtype, operands)
        return target

    def _computed(self, name: str, dtype: np.dtype[Any], operands: tuple[Term, ...]) -> Term:
        if name in _COMPARISONS:
            return _compare(self.script, _COMPARISONS[name], dtype, *operands)
        if name in ("maximum", "minimum") and dtype.kind in "iu":
            order = "gt" if name == "maximum" else "lt"
            return self.script.select(_compare(self.script, order, dtype, *operands), *operands)
        if name in ("maximum", "minimum") and dtype.kind == "f":
            order, (one, other) = "gt" if name == "maximum" else "lt", operands
            is_one = self.script.apply(order, one, other)
            is_one = self.script.apply("or", is_one, self.script.apply("is_nan", one))
            return self.script.select(is_one, one, other)
        if name == "right_shift":
            return self.script.apply("ashr" if dtype.kind == "i" else "lshr", *operands)
        if name not in _UFUNCS[dtype.kind]:
            raise Refused(f"{name} of {dtype}")
        return self.script.apply(_UFUNCS[dtype.kind][name], *operands)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if function is np.where and len(args) == 3 and not kwargs:
            choice, *pair = args
            dtype, rows = choice._alike(*pair) if self._has_array(pair) else _literals(choice, pair)
            choices = choice.terms() * (len(rows) if choice.size == 1 else 1)
            pairs = rows * (len(choices) if len(rows) == 1 else 1)
            chosen = (self.script.select(c, *pair) for c, pair in zip(choices, pairs, strict=True))
            return self._made(chosen, dtype)
        if function is np.clip and len(args) == 3 and set(kwargs) <= {"out"}:
            dtype, rows = self._alike(*args)
            target = kwargs.get("out", self._made([row[0] for row in rows], dtype))
            if target.dtype != dtype:
                raise Refused(f"{dtype} into {target.dtype}")
            for cell, row in zip(target.cells, rows, strict=True):
                cell.term = self._clipped(dtype, *row)
            return target
        if function is np.copyto and set(kwargs) <= {"casting"}:
            target, source = args
            for cell, made in zip(target.cells, source.cast(target.dtype), strict=True):
                cell.term = made
            return None
        if function is np.copyto and set(kwargs) == {"where"} and not isinstance(args[1], Array):
            target, constant = args
            kept = _element(self.script, constant, target.dtype)
            for cell, term, where in zip(
                target.cells, target.terms(), kwargs["where"].terms(), strict=True
            ):
                cell.term = self.script.select(where, kept, term)
            return None
        if function is np.copyto and set(kwargs) == {"where"}:
            target, source = args
            for cell, kept, where in zip(
                target.cells, source.terms(), kwargs["where"].terms(), strict=True
            ):
                cell.term = self.script.select(where, kept, self.script.bits(cell.term))
            return None
        if function in (np.zeros_like, np.ones_like) and self.dtype.kind == "b" and not kwargs:
            return self._made([truth(function is np.ones_like)] * self.size)
        if function is np.empty_like and not kwargs:
            return unknown(self.branches, self.size, self.dtype)
        raise Refused(f"{function.__name__} {kwargs}")

    def cast(self, into: np.dtype[Any]) -> list[Term]:
        """What C's casts make of the elements."""
        if self.dtype.kind == into.kind == "f" and self.dtype != into:
            return [self._cast_float(cell.term, into) for cell in self.cells]
        return [self._cast(term, into) for term in self.terms()]

    def _cast(self, term: Term, into: np.dtype[Any]) -> Term:
        """A cast that makes no NaN; that a float is within the integers is demanded."""
        script, width, kind = self.script, 8 * into.itemsize, self.dtype.kind
        if into.kind == "f":
            return script.converted(term, width, signed=kind != "u")
        if kind != "f":
            return script.resize(term, width, signed=kind == "i")
        signed = into.kind == "i"
        script.demands.append(script.is_within(term, width, signed=signed))
        return script.saturated(term, width, signed=signed)

    def _cast_float(self, term: Term, into: np.dtype[Any]) -> Term:
        """A float of another width; a NaN becomes quiet, as on every processor, with its sign."""
        script, width = self.script, 8 * into.itemsize
        operand, term = script.bits(term), script.number(term)
        made = script.converted(term, width)
        pattern = script.bits(made)
        signs = (script.extract(each, each.sort.width - 1, 1) for each in (operand, pattern))
        quiet = script.extract(pattern, np.finfo(into).nmant - 1, 1)
        is_quiet = script.apply("eq", quiet, bits(1, 1))
        kept = script.apply("and", is_quiet, script.apply("eq", *signs))
        script.require(script.apply("or", script.apply("not", script.apply("is_nan", term)), kept))
        return made

    @staticmethod
    def _has_array(values: Any) -> bool:
        return any(isinstance(value, Array) for value in values)

    def _clipped(self, dtype: np.dtype[Any], value: Term, low: Term, high: Term) -> Term:
        """NumPy's clip; comparisons with NaN are false, which leaves it."""
        below = _compare(self.script, "lt", dtype, value, low)
        above = _compare(self.script, "gt", dtype, value, high)
        return self.script.select(below, low, self.script.select(above, high, value))


def _literals(choice: Array, pair: Any) -> tuple[np.dtype[Any], list[tuple[Term, ...]]]:
    """Two scalars of one type."""
    if any(not isinstance(value, np.generic) for value in pair) or pair[0].dtype != pair[1].dtype:
        raise Refused(f"where {pair}")
    return pair[0].dtype, [tuple(_element(choice.script, v, v.dtype) for v in pair)]


def runs(run: Callable[[Branches], tuple[Term, Term]]) -> Iterator[tuple[Script, Term, Term]]:
    """Run a function with every answer to its branches: yields the script, operand and result."""
    answers: list[bool] = []
    while True:
        branches = Branches(Script(), answers)
        yield branches.script, *run(branches)
        given = branches.given
        while given and not given[-1]:
            given.pop()
        if not given:
            return
        answers = [*given[:-1], False]


def unknown(branches: Branches, count: int, dtype: Any) -> Array:
    """Elements of which nothing is known."""
    sort = _sort(np.dtype(dtype))
    return Array(branches, [Cell(branches.script.declare(sort)) for _ in range(count)], dtype)


def block(branches: Branches, dtype: Any) -> tuple[Term, Array]:
    """A block of patterns, and the one element of it of which something is claimed.

    The other cell is the first of the block. What is proved of one element with any first element
    holds of the first one too: cells are computed alike, and the two may have one value.
    """
    sort = _sort(np.dtype(dtype))
    first, x = branches.script.declare(sort), branches.script.declare(sort, "x")
    return x, Array(branches, [Cell(first), Cell(x)], dtype)
