"""CUDA C to SMT: constants and functions of straight-line code, evaluated on terms.

The subset is that of the GPU kernels: ``typedef``, ``constexpr``, functions that declare, assign
and return, and expressions with C's conversions. All else is refused. Calls are evaluated in
place. A shift by a word's width or more is undefined in C, and demanded not to occur.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

from .smt import BOOL, Refused, Script, Sort, Term, bits, truth

_TOKEN = re.compile(
    r"\s+|//[^\n]*|(?P<number>0x[\d.a-fA-F]+(?:p[-+]?\d+)?\w*|\d+(?:\.\d+)?\w*)|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<mark><<|>>|[-+*/&|^]=|[<>=!]=|::|[-+*/&|^~!<>=?:;,(){}])"
)


class Type(NamedTuple):
    """A type of C; ``rank`` orders the conversions of operands."""

    sort: Sort
    signed: bool
    rank: int


INT = Type(Sort("bits", 32), True, 1)
DOUBLE = Type(Sort("float", 64), True, 6)
#: The types, by their words in C.
TYPES: dict[str, Type] = {
    "bool": Type(BOOL, False, 0),
    "int": INT,
    "unsigned int": Type(Sort("bits", 32), False, 2),
    "long long": Type(Sort("bits", 64), True, 3),
    "unsigned long long": Type(Sort("bits", 64), False, 4),
    "float": Type(Sort("float", 32), True, 5),
    "double": DOUBLE,
}
#: CUDA's intrinsics: the types of the parameters and of the result.
INTRINSICS: dict[str, tuple[tuple[str, ...], str]] = {
    "__uint_as_float": (("unsigned int",), "float"),
    "__float_as_uint": (("float",), "unsigned int"),
    "__longlong_as_double": (("long long",), "double"),
    "__double_as_longlong": (("double",), "long long"),
    "__byte_perm": (("unsigned int",) * 3, "unsigned int"),
    "__clz": (("int",), "int"),
    "__clzll": (("long long",), "int"),
}
#: Binary operators from the loosest to the tightest.
_LEVELS = (
    ("|",),
    ("^",),
    ("&",),
    ("==", "!="),
    ("<", ">", "<=", ">="),
    ("<<", ">>"),
    ("+", "-"),
    ("*",),
)
_NAMES = {"|": "or", "^": "xor", "&": "and", "+": "add", "-": "sub", "*": "mul"}
_NAMES |= {"==": "eq", "!=": "ne", "<": "lt", ">": "gt", "<=": "le", ">=": "ge"}


class Value(NamedTuple):
    """A term of a type."""

    term: Term
    type: Type


@dataclass(frozen=True)
class _Function:
    result: Type
    parameters: list[tuple[str, Type]]
    body: list[str]


class Program:
    """A translation unit: its types, constants and functions."""

    def __init__(self, script: Script, text: str | list[str], *, flush: bool = False) -> None:
        self.script, self.flush = script, flush
        self._types = dict(TYPES)
        self._names: dict[str, Value] = {}
        self._functions: dict[str, _Function] = {}
        self._tokens = _tokens(text) if isinstance(text, str) else text
        #: Those within it, which have names of their own.
        self._spaces: dict[str, Program] = {}
        self._depth = 0
        while self._tokens:
            self._outermost()

    def call(self, name: str, *arguments: Value) -> Value:
        """The result of a function."""
        function = self._functions.get(name)
        if function is None:
            return self._intrinsic(name, arguments)
        outside, left = self._names, self._tokens
        self._names = dict(outside)
        for (parameter, kind), argument in zip(function.parameters, arguments, strict=True):
            self._names[parameter] = self._as(argument, kind)
        self._tokens = list(function.body)
        result = self._as(self._body(), function.result)
        self._names, self._tokens = outside, left
        return result

    def type_named(self, name: str) -> Type:
        """A type, or the one that a ``typedef`` gave this name."""
        return self._types[name]

    # Declarations and statements.

    def _outermost(self) -> None:
        if self._accept("namespace"):
            name = self._take()
            self._expect("{")
            if self._depth:
                self._spaces[name] = Program(self.script, self._block(), flush=self.flush)
            else:
                self._depth = 1
        elif self._accept("}"):  # of the namespace
            pass
        elif self._accept("typedef"):
            kind = self._type()
            self._types[self._take()] = kind
            self._expect(";")
        elif self._accept("constexpr"):
            self._declaration()
        elif self._accept("__device__"):
            self._expect("__forceinline__")
            self._function()
        else:
            raise Refused(" ".join(self._tokens[:8]))

    def _function(self) -> None:
        result, name, parameters = self._type(), self._take(), []
        self._expect("(")
        while not self._accept(")"):
            kind = self._type()
            parameters.append((self._take(), kind))
            self._accept(",")
        self._expect("{")
        self._functions[name] = _Function(result, parameters, self._block())

    def _block(self) -> list[str]:
        """The tokens up to the brace that closes one, which is taken."""
        end, depth = 0, 1
        while depth:
            depth += {"{": 1, "}": -1}.get(self._tokens[end], 0)
            end += 1
        found = self._tokens[: end - 1]
        del self._tokens[:end]
        return found

    def _body(self) -> Value:
        while not self._accept("return"):
            if self._accept(";"):
                continue
            if self._tokens[0] == "const" or self._tokens[0] in self._types:
                self._declaration()
                continue
            name, mark = self._take(), self._take()
            if name not in self._names or mark not in ("+=", "-=", "="):
                raise Refused(f"{name} {mark}")
            value = self._expression()
            if mark != "=":
                value = self._binary(mark[0], self._names[name], value)
            self._names[name] = self._as(value, self._names[name].type)
            self._expect(";")
        result = self._expression()
        self._expect(";")
        if self._tokens:
            raise Refused(" ".join(self._tokens))
        return result

    def _declaration(self) -> None:
        kind = self._type()
        while True:
            name = self._take()
            self._expect("=")
            self._names[name] = self._as(self._expression(), kind)
            if self._accept(";"):
                return
            self._expect(",")

    def _type(self) -> Type:
        self._accept("const")
        words = self._take()
        while f"{words} {self._tokens[0]}" in TYPES or self._tokens[0] == "long":
            words += f" {self._take()}"
        if words not in self._types:
            raise Refused(f"type {words}")
        return self._types[words]

    # Expressions.

    def _expression(self) -> Value:
        choice = self._operation(0)
        if not self._accept("?"):
            return choice
        yes = self._expression()
        self._expect(":")
        yes, no = self._alike(yes, self._expression())
        chosen = self.script.select(self._as(choice, TYPES["bool"]).term, yes.term, no.term)
        return Value(chosen, yes.type)

    def _operation(self, level: int) -> Value:
        if level == len(_LEVELS):
            return self._operand()
        left = self._operation(level + 1)
        while self._tokens and self._tokens[0] in _LEVELS[level]:
            left = self._binary(self._take(), left, self._operation(level + 1))
        return left

    def _operand(self) -> Value:
        token = self._take()
        if token == "(":
            value = self._expression()
            self._expect(")")
            return value
        if token == "~":
            value = self._promoted(self._operand())
            return Value(self.script.apply("not", value.term), value.type)
        if token == "-":
            return self._binary("-", _constant(self.script, "0"), self._operand())
        if token[0].isdigit():
            return _constant(self.script, token)
        if token in ("true", "false"):
            return Value(truth(token == "true"), TYPES["bool"])
        space = self
        if self._accept("::"):
            space, token = self._spaces[token], self._take()
        if not self._accept("("):
            if token not in self._names:
                raise Refused(token)
            return self._names[token]
        arguments = []
        while not self._accept(")"):
            arguments.append(self._expression())
            self._accept(",")
        return space.call(token, *arguments)

    def _binary(self, mark: str, left: Value, right: Value) -> Value:
        script = self.script
        if mark in ("<<", ">>"):
            left, right = self._promoted(left), self._promoted(right)
            width = left.type.sort.width
            amount = script.resize(right.term, width, signed=right.type.signed)
            script.demands.append(script.apply("ult", amount, bits(width, width)))
            right_shift = "ashr" if left.type.signed else "lshr"
            name = "shl" if mark == "<<" else right_shift
            return Value(script.apply(name, left.term, amount), left.type)
        left, right = self._alike(left, right)
        name, is_float = _NAMES[mark], left.type.sort.kind == "float"
        if mark in ("<", ">", "<=", ">=") and not is_float:
            name = f"{'s' if left.type.signed else 'u'}{name}"
        made = script.apply(name, left.term, right.term, flush=self.flush and _is_single(left))
        return Value(made, TYPES["bool"] if made.sort == BOOL else left.type)

    def _promoted(self, value: Value) -> Value:
        if value.type.sort.kind == "float":
            raise Refused("a float where C has integers")
        return self._as(value, INT) if value.type.rank < INT.rank else value

    def _alike(self, left: Value, right: Value) -> tuple[Value, Value]:
        """C's usual arithmetic conversions."""
        kind = max(left.type, right.type, INT, key=lambda kind: kind.rank)
        return self._as(left, kind), self._as(right, kind)

    def _as(self, value: Value, kind: Type) -> Value:
        """Convert, as an assignment does."""
        script, term, sort = self.script, value.term, kind.sort
        if value.type == kind:
            return value
        if sort == BOOL:
            if term.sort.kind != "bits":
                raise Refused("a float as a truth")
            return Value(script.apply("ne", term, bits(0, term.sort.width)), kind)
        if sort.kind == "float":
            if term.sort == BOOL:
                raise Refused("a truth as a float")
            return Value(script.converted(term, sort.width, signed=value.type.signed), kind)
        if term.sort.kind == "float":
            raise Refused("a float as an integer")
        return Value(script.resize(term, sort.width, signed=value.type.signed), kind)

    def _intrinsic(self, name: str, arguments: tuple[Value, ...]) -> Value:
        if name not in INTRINSICS:
            raise Refused(f"{name}()")
        parameters, result = INTRINSICS[name]
        given = [
            self._as(value, TYPES[kind]).term
            for value, kind in zip(arguments, parameters, strict=True)
        ]
        if name == "__byte_perm":
            return Value(self.script.permuted(*given), TYPES[result])
        if name.startswith("__clz"):
            zeros = self.script.leading_zeros(given[0])
            return Value(self.script.resize(zeros, 32, signed=False), TYPES[result])
        convert = self.script.number if TYPES[result].sort.kind == "float" else self.script.bits
        return Value(convert(given[0]), TYPES[result])

    # Tokens.

    def _take(self) -> str:
        if not self._tokens:
            raise Refused("the text ends early")
        return self._tokens.pop(0)

    def _accept(self, token: str) -> bool:
        if self._tokens and self._tokens[0] == token:
            del self._tokens[0]
            return True
        return False

    def _expect(self, token: str) -> None:
        if not self._accept(token):
            raise Refused(f"{' '.join(self._tokens[:6])}, not {token}")


def _is_single(value: Value) -> bool:
    return value.type.sort == Sort("float", 32)


def _tokens(text: str) -> list[str]:
    found, at = [], 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise Refused(text[at : at + 20])
        if match.lastgroup:
            found.append(match[0])
        at = match.end()
    return found


def _constant(script: Script, token: str) -> Value:
    """A literal of C, of the type that it has there."""
    if re.fullmatch(r"(0x[\da-f.]+p[-+]?\d+|\d+\.\d+)f?", token):
        kind = TYPES["float"] if token.endswith("f") else DOUBLE
        number = token.removesuffix("f")
        exact = float.fromhex(number) if "x" in number else float(number)
        return Value(script.real(exact, kind.sort.width), kind)
    found = re.fullmatch(r"(0x[\da-fA-F]+|\d+)(u?)(l?l?)", token)
    if not found:
        raise Refused(token)
    value = int(found[1], 0)
    allowed = [
        kind
        for kind in list(TYPES.values())[1:5]
        if value < 1 << (kind.sort.width - kind.signed)
        and not (found[2] and kind.signed)
        and not (found[3] and kind.sort.width < 64)
        # A decimal constant without u is signed.
        and (found[2] or kind.signed or "x" in found[1])
    ]
    if not allowed:
        raise Refused(token)
    return Value(bits(value, allowed[0].sort.width), allowed[0])
