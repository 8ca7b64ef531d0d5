"""PTX to SMT: every value that a kernel stores, followed back to the value that it loads.

PTX ISA 9. A kernel is blocks of instructions. A store's register is followed back through the
definitions in its own block; from other blocks constants alone come. An instruction that is not
known here is refused wherever it stands. Which address belongs to which thread is not proved; a
load and a store that belong together have the same offset and the same type.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

from .smt import BOOL, Refused, Script, Sort, Term, bits

_REGISTER = re.compile(r"%[a-z]+\d+")
_LINE = re.compile(r"(?:@(!?)(%p\d+)\s+)?([a-z]\w*(?:\.\w+)*)\s*(.*)")
_FLOATS = {"add", "sub", "mul", "fma", "neg", "abs"}
_INTEGERS = {"add", "sub", "and", "or", "xor", "not", "neg"}
#: Address arithmetic and control, of which no stored value may depend.
_APART = {"ld.param", "cvta.to.global", "bra", "bra.uni", "ret", "st.global"}
_VALUES = _FLOATS | _INTEGERS | {"shl", "shr", "setp", "selp", "cvt", "mov", "prmt", "ld.global"}


@dataclass(frozen=True)
class Instruction:
    """``guard`` is the predicate register under which it runs, and ``unless`` its negation."""

    guard: str
    unless: bool
    opcode: str
    operands: tuple[str, ...]

    @property
    def stem(self) -> str:
        """The name, with the space that a load or store goes to."""
        for apart in ("ld.param", "ld.global", "st.global", "cvta.to.global", "bra.uni"):
            if self.opcode == apart or self.opcode.startswith(f"{apart}."):
                return apart
        return self.opcode.partition(".")[0]

    @property
    def written(self) -> list[str]:
        """The registers that it defines."""
        if self.stem in ("st.global", "bra", "bra.uni", "ret"):
            return []
        return _REGISTER.findall(self.operands[0])


Block = list[Instruction]


def parse(ptx: str) -> tuple[dict[str, int], list[Block]]:
    """The widths of the registers, by the letters of their names, and the blocks."""
    body = ptx[ptx.index("{", ptx.index(".entry")) + 1 : ptx.rindex("}")]
    widths: dict[str, int] = {}
    blocks: list[tuple[str, Block]] = [("", [])]
    for line in (raw.split("//")[0].strip() for raw in body.splitlines()):
        if declared := re.fullmatch(r"\.reg \.(pred|[bf]\d+)\s+%([a-z]+)<\d+>;", line):
            widths[declared[2]] = int(declared[1][1:]) if declared[1] != "pred" else 0
        elif label := re.fullmatch(r"(\$\w+):", line):
            blocks.append((label[1], []))
        elif line and not re.fullmatch(r'\.pragma "nounroll";', line):
            made = _instruction(line)
            blocks[-1][1].append(made)
            if made.stem in ("bra", "bra.uni", "ret"):
                blocks.append(("", []))
    return widths, _merged(blocks)


def _instruction(line: str) -> Instruction:
    found = _LINE.fullmatch(line.removesuffix(";").strip())
    if not found or not line.endswith(";"):
        raise Refused(line)
    operands = tuple(re.findall(r"\{[^}]*\}|\[[^\]]*\]|[^,\s]+", found[4]))
    made = Instruction(found[2] or "", bool(found[1]), found[3], operands)
    if made.stem not in _VALUES | _APART:
        raise Refused(line)
    return made


def _merged(blocks: list[tuple[str, Block]]) -> list[Block]:
    """Have "branch over some instructions" be these instructions under the opposite predicate.

    So it is if no other branch leads to their end, and they write no memory and no predicate.
    """
    targets = Counter(i.operands[-1] for _, b in blocks for i in b if i.stem.startswith("bra"))
    blocks = [(label, block) for label, block in blocks if label or block]
    at = 0
    while at + 2 < len(blocks):
        (label, before), (inner, over), (after, rest) = blocks[at : at + 3]
        branch = before[-1] if before else None
        if (
            branch
            and branch.stem == "bra"
            and branch.guard
            and branch.operands == (after,)
            and targets[after] == 1
            and not inner
            and all(i.stem in _VALUES - {"ld.global", "setp"} and not i.guard for i in over)
            and branch.guard not in [register for i in over for register in i.written]
        ):
            guarded = [replace(i, guard=branch.guard, unless=not branch.unless) for i in over]
            blocks[at : at + 3] = [(label, [*before[:-1], *guarded, *rest])]
        else:
            at += 1
    return [block for _, block in blocks]


Place = tuple[int, int]


class _Slice:
    """The values of registers at places in one block."""

    def __init__(self, script: Script, widths: dict[str, int], blocks: list[Block], at: int):
        self.script, self.widths, self.blocks, self.block = script, widths, blocks, at
        self.loaded: dict[tuple[int, int], Term] = {}
        self._values: dict[tuple[Place, str], Term] = {}

    def sort(self, register: str) -> Sort:
        width = self.widths[register.lstrip("%").rstrip("0123456789")]
        return Sort("bits", width) if width else BOOL

    def read(self, operand: str, place: Place, width: int) -> Term:
        """An operand of an instruction, as a bit-vector of that width."""
        if found := re.fullmatch(r"0([fd])([0-9A-Fa-f]+)", operand):
            return bits(int(found[2], 16), width)
        if re.fullmatch(r"-?\d+U?|0x[0-9A-Fa-f]+U?", operand):
            return bits(int(operand.rstrip("U"), 0), width)
        value = self.register(operand, place)
        if value.sort.width != width:
            raise Refused(f"{operand} of {value.sort} as {width} bits")
        return value

    def register(self, name: str, place: Place) -> Term:
        """A register before the instruction at a place."""
        if not _REGISTER.fullmatch(name):
            raise Refused(f"operand {name}")
        where = self._definition(name, place)
        if (where, name) not in self._values:
            self._values[where, name] = self._value(where, name)
        return self._values[where, name]

    def _definition(self, name: str, place: Place) -> Place:
        """The last definition above in its block, else the only one there is."""
        block, before = place
        for at in range(before - 1, -1, -1):
            if name in self.blocks[block][at].written:
                return block, at
        found = [
            (number, at)
            for number, other in enumerate(self.blocks)
            for at, instruction in enumerate(other)
            if name in instruction.written
        ]
        if len(found) != 1 or found[0][0] == block:
            raise Refused(f"{name} has {len(found)} definitions")
        return found[0]

    def _value(self, place: Place, name: str) -> Term:
        block, at = place
        instruction = self.blocks[block][at]
        value = self._computed(instruction, place, name)
        if value.sort != self.sort(name):
            raise Refused(f"{instruction.opcode} gives {name} {value.sort}")
        if not instruction.guard:
            return value
        guard = self.register(instruction.guard, place)
        if any(name in above.written for above in self.blocks[block][:at]):
            other = self.register(name, place)
        else:
            other = self.script.declare(value.sort)  # whatever it was before: anything
        pair = (other, value) if instruction.unless else (value, other)
        return self.script.select(guard, *pair)

    def _computed(self, instruction: Instruction, place: Place, name: str) -> Term:
        script, (_, *operands) = self.script, instruction.operands
        stem, *modifiers, kind = instruction.opcode.split(".")
        if kind == "pred":
            if modifiers or stem not in ("mov", "not", "and", "or", "xor"):
                raise Refused(instruction.opcode)
            truths = [self.register(operand, place) for operand in operands]
            if any(truth.sort != BOOL for truth in truths):
                raise Refused(instruction.opcode)
            if stem == "xor":
                return script.apply("not", script.apply("eq", *truths))
            return truths[0] if stem == "mov" else script.apply(stem, *truths)
        if not re.fullmatch(r"[bfsu](8|16|32|64)", kind):
            raise Refused(instruction.opcode)
        letter, width = kind[0], int(kind[1:])

        def read(count: int) -> list[Term]:
            if len(operands) != count:
                raise Refused(f"{instruction.opcode} of {len(operands)} operands")
            return [self.read(operand, place, width) for operand in operands]

        if instruction.stem == "ld.global":
            return self._load(instruction, place, name, letter, width)
        if letter == "f" and stem in _FLOATS and set(modifiers) <= {"rn", "ftz"}:
            numbers = [script.number(operand) for operand in read(len(operands))]
            return script.bits(script.apply(stem, *numbers, flush="ftz" in modifiers))
        if stem == "setp":
            return self._compared(modifiers, letter, read(2))
        if stem == "selp" and not modifiers:
            yes, no = (self.read(operand, place, width) for operand in operands[:2])
            return script.select(self.register(operands[2], place), yes, no)
        if stem == "mov" and not modifiers:
            return read(1)[0]
        if stem == "prmt" and not modifiers:
            return script.permuted(*read(3))
        if letter == "f":
            raise Refused(instruction.opcode)
        if stem in ("shl", "shr") and not modifiers:
            amount = operands[1]
            if not amount.isdigit() or int(amount) >= width:
                raise Refused(f"{instruction.opcode} by {amount}")
            shift = {"shl": "shl", "shr": "ashr" if letter == "s" else "lshr"}[stem]
            return script.apply(shift, *read(2))
        if stem == "mul" and modifiers == ["wide"] and letter in "su":
            wide = [script.resize(o, 2 * width, signed=letter == "s") for o in read(2)]
            return script.apply("mul", *wide)
        if stem == "mul" and modifiers == ["lo"]:
            return script.apply("mul", *read(2))
        if stem == "cvt" and len(modifiers) == 1 and modifiers[0][0] in "su" and letter in "su":
            source = self.register(operands[0], place)
            narrow = script.resize(source, width, signed=False)
            if narrow.sort.width > source.sort.width:
                raise Refused(instruction.opcode)
            made = script.resize(narrow, int(modifiers[0][1:]), signed=letter == "s")
            return script.resize(made, self.sort(name).width, signed=modifiers[0][0] == "s")
        if stem in _INTEGERS and not modifiers:
            return script.apply(stem, *read(len(operands)))
        raise Refused(instruction.opcode)

    def _compared(self, modifiers: list[str], letter: str, pair: list[Term]) -> Term:
        relation, *rest = modifiers
        if letter == "f":
            if rest not in ([], ["ftz"]) or relation not in ("eq", "lt", "le", "gt", "ge"):
                raise Refused(f"setp.{'.'.join(modifiers)}.f")
            numbers = [self.script.number(operand) for operand in pair]
            return self.script.apply(relation, *numbers, flush=bool(rest))
        if rest:
            raise Refused(f"setp.{'.'.join(modifiers)}")
        if relation in ("eq", "ne"):
            return self.script.apply(relation, *pair)
        if letter == "b":
            raise Refused(f"setp.{relation}.b")
        return self.script.apply(f"{letter}{relation}", *pair)

    def _load(
        self, instruction: Instruction, place: Place, name: str, letter: str, width: int
    ) -> Term:
        if place[0] != self.block or letter == "s":
            raise Refused(f"{instruction.opcode} of {name}")
        lane = place[1], instruction.written.index(name)
        if lane not in self.loaded:
            unknown = "x" if not self.loaded else None
            self.loaded[lane] = self.script.declare(Sort("bits", width), unknown)
        return self.script.resize(self.loaded[lane], self.sort(name).width, signed=False)


def stores(ptx: str) -> Iterator[tuple[Script, Term, Term]]:
    """For each register that is stored: a script, the element that was loaded, the one stored."""
    widths, blocks = parse(ptx)
    if not any(i.stem == "st.global" for block in blocks for i in block):
        raise Refused("a kernel that stores nothing")
    for number, block in enumerate(blocks):
        loads = [at for at, i in enumerate(block) if i.stem == "ld.global"]
        saved = [at for at, i in enumerate(block) if i.stem == "st.global"]
        if len(loads) != len(saved):
            raise Refused(f"{len(loads)} loads and {len(saved)} stores in a block")
        for load, store in zip(loads, saved, strict=True):
            (into, source), (target, stored) = block[load].operands, block[store].operands
            if block[store].guard or block[load].guard or load > store:
                raise Refused("a load or store under a condition, or a store before its load")
            if _offset(source) != _offset(target) or (
                block[load].opcode[2:] != block[store].opcode[2:]
            ):
                raise Refused(f"{block[load]} and {block[store]}")
            width = int(block[store].opcode.rpartition(".")[2][1:])
            for lane, register in enumerate(_REGISTER.findall(stored)):
                script = Script()
                part = _Slice(script, widths, blocks, number)
                value = part.register(register, (number, store))
                if value.sort.width > width:
                    value = script.extract(value, 0, width)
                if set(part.loaded) != {(load, lane)}:
                    raise Refused(f"{stored} of {into} depends on another element")
                yield script, part.loaded[load, lane], value


def _offset(address: str) -> str:
    found = re.fullmatch(r"\[%rd\d+(\+-?\d+)?\]", address)
    if not found:
        raise Refused(address)
    return found[1] or ""
