"""LLVM IR to SMT: every vector that a module stores, followed back to the vector that it loads.

LLVM itself parses the text (llvmlite). A lane of a vector is followed through instructions that
work lane by lane, so one lane stands for all, and through those that move lanes. What LLVM calls
poison is demanded not to occur: long shifts, and flags such as ``nuw`` that are not kept. Which
address is loaded or stored is not proved.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Sequence
from typing import Any

import llvmlite.binding as binding

from .smt import BOOL, Refused, Script, Sort, Term, bits, truth

_BINARY = {name: name for name in ("and", "or", "xor", "add", "sub", "mul", "shl", "lshr", "ashr")}
_BINARY |= {"fadd": "add", "fsub": "sub", "fmul": "mul", "fneg": "neg"}
#: Rounding functions, and SMT-LIB's names of what they do. ``rint`` and ``nearbyint`` round as the
#: processor is set, which is to nearest, ties to even, wherever Python runs.
_ROUND = {
    **dict.fromkeys(("rint", "nearbyint", "roundeven"), "roundNearestTiesToEven"),
    **{"round": "roundNearestTiesToAway", "trunc": "roundTowardZero"},
    **{"ceil": "roundTowardPositive", "floor": "roundTowardNegative"},
}
_BOUNDS = {"umin": "ult", "umax": "ugt", "smin": "slt", "smax": "sgt"}
#: Unordered comparisons, and the ordered ones that they are the opposite of.
_UNORDERED = {"ugt": "le", "ult": "ge", "uge": "lt", "ule": "gt", "une": "eq"}
_ORDERED = {f"o{order}": order for order in ("eq", "lt", "le", "gt", "ge")}
#: What moves memory or has no effect; the rest that may write is refused.
_HARMLESS_CALLS = (
    "llvm.prefetch.",
    "llvm.memcpy.",
    "llvm.memset.",
    "llvm.assume",
    "llvm.lifetime.",
)
_KNOWN = {*_BINARY, "icmp", "fcmp", "select", "bitcast", "zext", "sext", "trunc", "load", "store"}
_KNOWN |= {"uitofp", "sitofp", "fpext", "fptrunc", "fptosi", "fptoui", "shufflevector"}
_KNOWN |= {"br", "ret", "phi", "getelementptr", "alloca"}  # addresses and control
_FLOATS = {"half": 16, "float": 32, "double": 64}
_NAME = re.compile(r"(%[\w.\-]+) = ")


class _Lanes:
    """Lanes of the values of a function."""

    def __init__(self, script: Script, made: dict[str, Any]) -> None:
        self.script, self.made = script, made
        #: By the load and the lane.
        self.loaded: dict[tuple[str, int], Term] = {}
        self._values: dict[tuple[str, int], Term] = {}

    def value(self, operand: Any, lane: int = 0) -> Term:
        text, kind = str(operand).strip(), str(operand.type)
        if operand.is_constant:
            return self._constant(kind, text.removeprefix(kind).strip())
        found = _NAME.match(text)
        if not found:
            raise Refused(f"an argument: {text}")
        if (found[1], lane) not in self._values:
            term = self._computed(self.made[found[1]], lane)
            if term.sort != _sort(kind):
                raise Refused(f"{text} gives {term.sort}")
            self._values[found[1], lane] = term
        return self._values[found[1], lane]

    def load(self, name: str, lane: int, sort: Sort) -> Term:
        """What is loaded: anything."""
        return self.script.declare(sort, None if self.loaded else "x")

    def _constant(self, kind: str, text: str) -> Term:
        """A constant, or the lane of a splat of one."""
        sort = _sort(kind)
        if found := re.fullmatch(r"splat \(\w+ (\S+)\)", text):
            text = found[1]
        if text == "zeroinitializer":
            text = "0x0" if sort.kind == "float" else "0"
        if sort == BOOL:
            return truth({"true": True, "false": False, "0": False, "1": True}[text])
        if sort.kind == "bits" and re.fullmatch(r"-?\d+", text):
            return bits(int(text), sort.width)
        if sort.kind == "float" and re.fullmatch(r"0x[0-9A-F]+", text):
            # The pattern of a float64, also for a float.
            (value,) = struct.unpack(">d", int(text, 16).to_bytes(8, "big"))
            return self.script.real(value, sort.width)
        if sort.kind == "float" and re.fullmatch(r"-?\d\.\d+e[-+]\d+", text):
            return self.script.real(float(text), sort.width)
        raise Refused(f"constant {kind} {text}")

    def _computed(self, instruction: Any, lane: int) -> Term:
        script, opcode, text = self.script, instruction.opcode, str(instruction).strip()
        sort = _sort(str(instruction.type))
        flags = _flags(text, opcode) if opcode != "call" else []
        if opcode == "load" and not flags:
            name = text.partition(" = ")[0]
            self.loaded[name, lane] = self.load(name, lane, sort)
            return self.loaded[name, lane]
        if opcode == "call":
            return self._called(instruction, text, lane)
        if opcode == "shufflevector" and not flags:
            return self._moved(instruction, text, lane)
        if opcode == "bitcast" and not flags and (joined := self._joined(instruction, lane)):
            return joined
        operands = [self.value(operand, lane) for operand in instruction.operands]
        if opcode in _BINARY:
            made = script.apply(_BINARY[opcode], *operands)
            self._demand(opcode, flags, operands, made)
            return made
        if opcode == "icmp":
            return self._compared_integers(flags, operands)
        if opcode == "fcmp" and flags == ["uno"]:
            are_numbers = [script.apply("eq", operand, operand) for operand in operands]
            return script.apply("not", script.apply("and", *are_numbers))
        if opcode == "fcmp" and len(flags) == 1 and flags[0] in _ORDERED:
            return script.apply(_ORDERED[flags[0]], *operands)
        if opcode == "fcmp" and len(flags) == 1 and flags[0] in _UNORDERED:
            return script.apply("not", script.apply(_UNORDERED[flags[0]], *operands))
        if opcode == "select" and not flags:
            return script.select(*operands)
        if opcode in ("fptosi", "fptoui") and not flags:
            # Out of range it is anything: a select may still leave it out.
            signed = opcode == "fptosi"
            is_within = script.is_within(operands[0], sort.width, signed=signed)
            made = script.saturated(operands[0], sort.width, signed=signed)
            return script.select(is_within, made, script.declare(sort))
        if opcode in ("uitofp", "sitofp", "fpext", "fptrunc") and not (
            flags and opcode != "uitofp"
        ):
            for _nneg in flags:
                script.demands.append(
                    script.apply("sge", operands[0], bits(0, operands[0].sort.width))
                )
            return script.converted(operands[0], sort.width, signed=opcode != "uitofp")
        if opcode == "bitcast" and not flags and operands[0].sort == sort:
            return operands[0]
        if opcode == "bitcast" and not flags and operands[0].sort.width == sort.width:
            return script.number(operands[0]) if sort.kind == "float" else script.bits(operands[0])
        if opcode in ("zext", "sext", "trunc"):
            made = script.resize(operands[0], sort.width, signed=opcode == "sext")
            if sort == BOOL:
                made = script.apply("eq", script.extract(operands[0], 0, 1), bits(1, 1))
            self._demand(opcode, flags, operands, made)
            return made
        raise Refused(text)

    def _joined(self, instruction: Any, lane: int) -> Term | None:
        """A lane of a vector that is made of several of another."""
        (operand,) = instruction.operands
        count, made = _count(str(operand.type)), _count(str(instruction.type))
        if count <= made or count % made:
            return None
        each = count // made
        parts = [self.script.bits(self.value(operand, each * lane + k)) for k in range(each)]
        return self.script.join(*reversed(parts))

    def _moved(self, instruction: Any, text: str, lane: int) -> Term:
        """A lane that comes from another lane of one of two vectors."""
        found = re.search(r"<\d+ x i32> (<[^>]*>|zeroinitializer)$", text)
        if not found:
            raise Refused(text)
        places = re.findall(r"i32 (\d+|poison|undef)", found[1])
        first, second = list(instruction.operands)[:2]
        place = int(places[lane]) if places else 0
        count = _count(str(first.type))
        return self.value(first, place) if place < count else self.value(second, place - count)

    def _called(self, instruction: Any, text: str, lane: int) -> Term:
        *arguments, callee = instruction.operands
        family, name, *kinds = f"{callee.name}..".split(".")
        operands = [self.value(argument, lane) for argument in arguments]
        if not re.fullmatch(r"%\S+ = (tail )?call <?\w[^@]*@.*", text) or family != "llvm":
            raise Refused(text)
        if name in _ROUND and len(operands) == 1:
            return self.script.apply(_ROUND[name], *operands)
        if name in _BOUNDS and len(operands) == 2:
            return self.script.select(self.script.apply(_BOUNDS[name], *operands), *operands)
        if name == "fabs" and len(operands) == 1:
            return self.script.apply("abs", *operands)
        if name in ("fptosi", "fptoui") and kinds[0] == "sat":
            width = _sort(str(instruction.type)).width
            return self.script.saturated(operands[0], width, signed=name == "fptosi")
        if name == "usub" and kinds[0] == "sat":
            less = self.script.apply("ult", *operands)
            none = bits(0, operands[0].sort.width)
            return self.script.select(less, none, self.script.apply("sub", *operands))
        raise Refused(text)

    def _compared_integers(self, flags: list[str], operands: list[Term]) -> Term:
        *others, relation = flags
        if others == ["samesign"]:
            signs = [self.script.extract(o, o.sort.width - 1, 1) for o in operands]
            self.script.demands.append(self.script.apply("eq", *signs))
        elif others:
            raise Refused(f"icmp {' '.join(flags)}")
        return self.script.apply(relation, *operands)

    def _demand(self, opcode: str, flags: list[str], operands: list[Term], made: Term) -> None:
        """Demand that a result is not poison."""
        script, width = self.script, operands[0].sort.width
        if opcode in ("shl", "lshr", "ashr"):
            script.demands.append(script.apply("ult", operands[1], bits(width, width)))
        for flag in flags:
            if flag in ("nuw", "nsw") and opcode in ("add", "sub", "mul", "shl", "trunc"):
                signed = flag == "nsw"
                wide = [
                    # The length of a shift is never negative.
                    script.resize(o, 2 * width, signed=signed and not (n and opcode == "shl"))
                    for n, o in enumerate(operands)
                ]
                exact = wide[0] if opcode == "trunc" else script.apply(_BINARY[opcode], *wide)
                kept = script.apply("eq", exact, script.resize(made, 2 * width, signed=signed))
            elif flag == "exact" and opcode in ("lshr", "ashr"):
                kept = script.apply("eq", script.apply("shl", made, operands[1]), operands[0])
            elif flag == "disjoint" and opcode == "or":
                kept = script.apply("eq", script.apply("and", *operands), bits(0, width))
            elif flag == "nneg" and opcode == "zext":
                kept = script.apply("sge", operands[0], bits(0, width))
            else:
                raise Refused(f"{opcode} {flag}")
            script.demands.append(kept)


def _flags(text: str, opcode: str) -> list[str]:
    """The words between an opcode and its first type."""
    found = re.search(rf"= {opcode} ((?:[a-z]+ )*?)(?:<|i\d|half|float|double)", text)
    if not found:
        raise Refused(text)
    return found[1].split()


def _sort(kind: str) -> Sort:
    """The sort of a scalar type, or of a vector's lane."""
    if found := re.fullmatch(r"<\d+ x (\w+)>", kind):
        kind = found[1]
    if kind in _FLOATS:
        return Sort("float", _FLOATS[kind])
    if not re.fullmatch(r"i\d+", kind):
        raise Refused(kind)
    return BOOL if kind == "i1" else Sort("bits", int(kind[1:]))


def _count(kind: str) -> int:
    """The lanes of a vector type; one of a scalar."""
    found = re.match(r"<(\d+) x", kind)
    return int(found[1]) if found else 1


def stores(text: str, name: str) -> Iterator[tuple[Script, Term, Term]]:
    """For each vector that functions of this name or ``name.line`` store, as :mod:`.ptx` does."""
    for store, made in _stores(text, name, f"{name}.line"):
        if store.opcode != "store":
            raise Refused(str(store))
        script = Script()
        lanes = _Lanes(script, made)
        stored = lanes.value(next(iter(store.operands)))
        if len(lanes.loaded) != 1:
            raise Refused(f"{store} depends on {len(lanes.loaded)} loads")
        (loaded,) = lanes.loaded.values()
        yield script, script.bits(loaded), script.bits(stored)


class _Elements(_Lanes):
    """Lanes in which one element is ``x``: of so many bits, at its place in what is loaded."""

    def __init__(self, script: Script, made: dict[str, Any], element: int, width: int) -> None:
        super().__init__(script, made)
        self.element, self.width = element, width
        self.x = script.declare(Sort("bits", width), "x")

    def load(self, name: str, lane: int, sort: Sort) -> Term:
        script, each = self.script, sort.width // self.width
        first = lane * each
        parts = [
            self.x if first + k == self.element else script.declare(self.x.sort)
            for k in range(each)
        ]
        joined = script.join(*reversed(parts)) if each > 1 else parts[0]
        return script.number(joined) if sort.kind == "float" else joined


def elements(
    text: str, source: int, target: int, count: int
) -> Iterator[tuple[Script, Term, Term]]:
    """The first elements of each vector that ``convert`` or ``line`` store, of ``count`` lanes.

    ``source`` and ``target`` are the bits of an element. There are two elements of each, and all
    where lanes move.
    """
    moves = "shufflevector" in text
    for store, made in _stores(text, "convert", "line"):
        if store.opcode == "call":
            yield _copied(store, made, source, target)
            continue
        stored = next(iter(store.operands))
        kind = str(stored.type)
        each = _sort(kind).width // target
        if _count(kind) * each != count:
            raise Refused(f"{store} of {_count(kind)} lanes")
        for element in range(count if moves else 2):
            script = Script()
            lanes = _Elements(script, made, element, source)
            value = script.bits(lanes.value(stored, element // each))
            if len({name for name, _ in lanes.loaded}) != 1:
                raise Refused(f"{store} depends on several loads, or none")
            yield script, lanes.x, script.extract(value, element % each * target, target)


def _copied(move: Any, made: dict[str, Any], source: int, target: int) -> tuple[Script, Term, Term]:
    """An element that is moved as it is, from the operands to the results."""
    places = [_NAME.match(str(pointer).strip()) for pointer in list(move.operands)[:2]]
    opcodes = [made[found[1]].opcode for found in places if found]
    if source != target or opcodes != ["getelementptr", "getelementptr"]:
        raise Refused(str(move))
    script = Script()
    x = script.declare(Sort("bits", source), "x")
    return script, x, x


def _stores(text: str, *names: str) -> Iterator[tuple[Any, dict[str, Any]]]:
    """The stores of the functions of these names, each with the instructions by their results.

    An ``llvm.memmove`` is one: the optimizer makes it of conversions that keep every bit.
    """
    module = binding.parse_assembly(text)
    for function in module.functions:
        if function.name not in names or function.is_declaration:
            continue
        instructions = [at for block in function.blocks for at in block.instructions]
        made = {found[1]: at for at in instructions if (found := _NAME.match(str(at).strip()))}
        for at in instructions:
            _refuse_unknown_effects(at, names)
            if _is_memmove(at) or (at.opcode == "store" and not _is_on_stack(at, made)):
                yield at, made


def _is_memmove(instruction: Any) -> bool:
    return instruction.opcode == "call" and _callee(instruction).startswith("llvm.memmove.")


def _callee(call: Any) -> str:
    return str(list(call.operands)[-1].name)


def _refuse_unknown_effects(instruction: Any, names: Sequence[str]) -> None:
    """Refuse what may write memory, and is neither a store nor known to be about addresses."""
    if instruction.opcode == "call":
        callee = _callee(instruction)
        is_pure = str(instruction.type) != "void" and callee.startswith("llvm.")
        is_known = callee in names or callee.startswith((*_HARMLESS_CALLS, "llvm.memmove."))
        if not is_pure and not is_known:
            raise Refused(str(instruction))
    elif instruction.opcode not in _KNOWN:
        raise Refused(str(instruction))


def _is_on_stack(store: Any, made: dict[str, Any]) -> bool:
    """Whether these are the zeros behind the last elements, which are rounded on the stack."""
    value, pointer = store.operands
    found = _NAME.match(str(pointer).strip())
    return bool(value.is_constant and found and made[found[1]].opcode == "alloca")
