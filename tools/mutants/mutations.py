"""The mutants of a module: its text with one operator, constant, condition or statement changed."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

#: Longer descriptions are shortened.
DESCRIBED = 160

#: For each operator the one that it is confused with; of comparisons, that with the other boundary.
OPERATORS: dict[type[ast.AST], type[ast.AST]] = {
    **{ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt},
    **{ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is},
    **{ast.In: ast.NotIn, ast.NotIn: ast.In, ast.And: ast.Or, ast.Or: ast.And},
    **{ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.Div: ast.Mult},
    **{ast.FloorDiv: ast.Mult, ast.Mod: ast.FloorDiv, ast.Pow: ast.Mult},
    **{ast.LShift: ast.RShift, ast.RShift: ast.LShift},
    **{ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.BitXor: ast.BitAnd},
}
#: The same for the texts of kernels, in C and in LLVM's assembly.
WORDS = {
    **{"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "+": "-", "-": "+"},
    **{"*": "+", "/": "*", "<<": ">>", ">>": "<<", "&": "|", "|": "&", "^": "&", "+=": "-="},
    **{"-=": "+=", "add": "sub", "sub": "add", "fadd": "fsub", "fsub": "fadd", "mul": "add"},
    **{"and": "or", "or": "and", "xor": "or", "shl": "lshr", "lshr": "shl", "ashr": "lshr"},
    **{"ult": "ule", "ugt": "uge", "ne": "eq", "oeq": "one", "zext": "sext"},
}
_WORD = re.compile(r"(?<=\s)(?:" + "|".join(map(re.escape, WORDS)) + r"|\d+)(?=[\s;,)])")

#: What has no effect when a program runs, or on nothing but its speed.
_IDLE_FIELDS = {"annotation", "returns", "decorator_list"}


@dataclass(frozen=True, slots=True)
class Mutant:
    """``name`` is unique in its module, and does not change with the lines around it."""

    name: str
    text: str
    #: The first line of the change, in the module as it is.
    line: int


def mutants(text: str, *, is_kernel: bool = False) -> Iterator[Mutant]:
    """The mutants of a module; of one with kernels, also those of the texts in it."""
    tree = ast.parse(text)
    names: Counter[str] = Counter()
    for line, place, before, after in _mutate(tree, "module", is_kernel):
        change = f"{place}: {before} -> {after}"
        if len(change) > DESCRIBED:
            change = f"{change[:DESCRIBED]}..."
        names[change] += 1
        name = change if names[change] == 1 else f"{change} ({names[change]})"
        yield Mutant(name, ast.unparse(tree), line)


def _mutate(node: ast.AST, place: str, is_kernel: bool) -> Iterator[tuple[int, str, str, str]]:
    """Change what is below ``node``, one thing at a time; yields while it is changed."""
    for name, value in ast.iter_fields(node):
        if name in _IDLE_FIELDS:
            continue
        children = value if isinstance(value, list) else [value]
        for at, child in enumerate(children):
            if not isinstance(child, ast.AST) or _is_idle(child, is_kernel):
                continue
            within = _place(child, place)
            for other, told in _variants(child, name, is_kernel):
                _put(node, name, at, other)
                yield child.lineno, within, *(told or (_told(child), _told(other)))
            _put(node, name, at, child)
            yield from _mutate(child, within, is_kernel)


def _variants(
    node: ast.AST, field: str, is_kernel: bool
) -> Iterator[tuple[ast.AST, tuple[str, str] | None]]:
    """What may stand for a node, and how the change is told, if not by the two of them."""
    match node:
        case ast.Compare(left, ops, others):
            for at, op in enumerate(ops):
                changed = [*ops[:at], OPERATORS[type(op)](), *ops[at + 1 :]]
                yield ast.Compare(left, changed, others), None
        case ast.BoolOp(op, values):
            yield ast.BoolOp(OPERATORS[type(op)](), values), None
        case ast.BinOp(left, op, right) if type(op) in OPERATORS:
            yield ast.BinOp(left, OPERATORS[type(op)](), right), None
        case ast.AugAssign(target, op, value):
            yield ast.AugAssign(target, OPERATORS[type(op)](), value), None
            yield ast.Pass(), None
        case ast.UnaryOp(ast.Not(), operand):
            yield operand, None
        case ast.Constant(bool(value)):
            yield ast.Constant(not value), None
        case ast.Constant(int(value) | float(value)):
            yield ast.Constant(value + 1 if value + 1 != value else 2 * value), None
        case ast.Constant(str(value)) if is_kernel:
            for found in _WORD.finditer(value):
                other = WORDS[found[0]] if found[0] in WORDS else str(int(found[0]) + 1)
                changed_text = value[: found.start()] + other + value[found.end() :]
                line = value.count("\n", 0, found.start())
                told = (value.split("\n")[line].strip(), changed_text.split("\n")[line].strip())
                yield ast.Constant(changed_text), told
        # None is as false as False.
        case ast.Return(ast.expr() as value) if ast.unparse(value) not in ("None", "False"):
            yield ast.Return(ast.Constant(None)), None
        case ast.Expr(ast.Call() | ast.Await()) | ast.Raise() | ast.Break() | ast.Continue():
            yield ast.Pass(), None
        case ast.Delete() | ast.Assign([ast.Attribute() | ast.Subscript()]):
            yield ast.Pass(), None
    if field == "test" and not isinstance(node, ast.Compare | ast.BoolOp | ast.UnaryOp):
        assert isinstance(node, ast.expr)
        yield ast.UnaryOp(ast.Not(), node), None


def _is_idle(node: ast.AST, is_kernel: bool) -> bool:
    """Whether a node is a docstring, an assertion, for type checkers alone, or a message."""
    match node:
        case ast.keyword("strict", ast.Constant(True)):
            return True  # of zip: an assertion that both are equally long
        case ast.Expr(ast.Constant()):
            return True
        case ast.If(ast.Name("TYPE_CHECKING")) | ast.Assert() | ast.Subscript(ast.Name("Literal")):
            return True
        case ast.JoinedStr():
            return not is_kernel
        case ast.Assign([ast.Name("__all__" | "__slots__")]):
            return True
    return False


def _place(node: ast.AST, place: str) -> str:
    """The name of the function, the class or the constant that a node is in."""
    match node:
        case ast.ClassDef(name) | ast.FunctionDef(name) | ast.AsyncFunctionDef(name):
            return name if place == "module" else f"{place}.{name}"
        case ast.Assign([ast.Name(name)]) | ast.AnnAssign(ast.Name(name)) if place == "module":
            return name
    return place


def _told(node: ast.AST) -> str:
    return " ".join(ast.unparse(node).split())


def _put(node: ast.AST, name: str, at: int, child: ast.AST) -> None:
    held = getattr(node, name)
    if isinstance(held, list):
        held[at] = child
    else:
        setattr(node, name, child)
