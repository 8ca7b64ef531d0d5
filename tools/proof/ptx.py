"""PTX to SMT: a kernel run on symbols, for what it stores of each element that it loads.

PTX ISA 9. A launch is run thread by thread: its counts, addresses and branches are numbers, its
operands unknowns. So every element of the operands, and no other, has its result in its place.
An instruction that is not known here is refused wherever it stands, and so is a branch that depends
on an operand, unless it goes over some instructions. A value that is stored depends on no count,
address or thread, but what is stored of types of 4 bits may: they have a place in a byte.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

from .folded import Folded
from .smt import BOOL, Refused, Script, Sort, Term, bits, truth

_REGISTER = re.compile(r"%[a-z]+\d+")
_LINE = re.compile(r"(?:@(!?)(%p\d+)\s+)?([a-z]\w*(?:\.\w+)*)\s*(.*)")
_FLOATS = {"add", "sub", "mul", "fma", "neg", "abs"}
_INTEGERS = {"add", "sub", "and", "or", "xor", "not", "neg"}
_ENDS = {"min": "lt", "max": "gt"}
#: What computes no value.
_APART = {"ld.param", "cvta.to.global", "bra", "bra.uni", "ret", "st.global"}
_VALUES = {*_FLOATS, *_INTEGERS, *_ENDS, "shl", "shr", "setp", "selp", "cvt", "mov", "prmt"}
_VALUES |= {"clz", "bfi", "ld.global"}
#: More instructions than a thread has in any launch here.
_ENDLESS = 1 << 20


@dataclass(frozen=True)
class Instruction:
    """``guard`` is the predicate register under which it runs, and ``unless`` its negation."""

    guard: str
    unless: bool
    opcode: str
    operands: tuple[str, ...]

    @cached_property
    def stem(self) -> str:
        """The name, with the space that a load or store goes to."""
        for apart in ("ld.param", "ld.global", "st.global", "cvta.to.global", "bra.uni"):
            if self.opcode == apart or self.opcode.startswith(f"{apart}."):
                return apart
        return self.opcode.partition(".")[0]

    @cached_property
    def written(self) -> list[str]:
        """The registers that it defines."""
        if self.stem in ("st.global", "bra", "bra.uni", "ret"):
            return []
        return _REGISTER.findall(self.operands[0])


Block = list[Instruction]


def parse(ptx: str) -> tuple[dict[str, int], list[tuple[str, Block]]]:
    """The widths of the registers, by the letters of their names, and the blocks, with labels."""
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


def _merged(blocks: list[tuple[str, Block]]) -> list[tuple[str, Block]]:
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
    return blocks


@dataclass(frozen=True)
class Launch:
    """``length`` is the argument that says how much ``count`` elements are; ``over``: in place."""

    count: int
    length: int
    threads: int
    over: bool = False


#: Blocks of a grid, and threads of a block: fewer than a launch has threads, so that each loops.
_BLOCKS, _BLOCK = 2, 2
#: Of a thread, by its number.
_SPECIAL: dict[str, Callable[[int], int]] = {
    "%ctaid.x": lambda thread: thread // _BLOCK,
    "%tid.x": lambda thread: thread % _BLOCK,
    "%nctaid.x": lambda _: _BLOCKS,
    "%ntid.x": lambda _: _BLOCK,
}
#: Where the arrays begin, aligned to 16 bytes.
_SOURCE, _TARGET = 1 << 40, 1 << 41


@dataclass
class _Array:
    """Elements of so many bits, by their number, and the one thread that each belongs to."""

    script: Script
    address: int
    width: int
    elements: dict[int, Term] = field(default_factory=dict)
    threads: dict[int, int] = field(default_factory=dict)
    stored: set[int] = field(default_factory=set)

    def _places(self, address: int, width: int, thread: int) -> tuple[range, int]:
        """The elements of some bits, and the bits of the first one before them."""
        first, before = divmod(8 * (address - self.address), self.width)
        places = range(first, first - (-before - width) // self.width)
        if any(self.threads.setdefault(place, thread) != thread for place in places):
            raise Refused(f"two threads want the element at {address:#x}")
        return places, before

    def load(self, address: int, width: int, thread: int) -> Term:
        places, before = self._places(address, width, thread)
        if missing := [place for place in places if place not in self.elements]:
            raise Refused(f"a load of element {missing[0]}, which is not there")
        whole = self.script.join(*(self.elements[place] for place in reversed(places)))
        return self.script.extract(whole, before, width)

    def store(self, address: int, value: Term, thread: int) -> None:
        places, before = self._places(address, value.sort.width, thread)
        if before or len(places) * self.width != value.sort.width:
            raise Refused(f"a store of {value.sort} at {address:#x}")
        for number, place in enumerate(places):
            self.elements[place] = self.script.extract(value, number * self.width, self.width)
            self.stored.add(place)


def _in_whole_bytes(count: int, width: int) -> int:
    """So many elements, and one more where half a byte is left."""
    return count + count * width % 8 // width


class _Run:
    """A launch: the arrays, and the threads one after the other."""

    def __init__(
        self,
        script: Folded,
        widths: dict[str, int],
        blocks: list[tuple[str, Block]],
        launch: Launch,
        source: int,
        target: int,
    ) -> None:
        self.script, self.widths, self.launch = script, widths, launch
        self.instructions: list[Instruction] = []
        self.labels: dict[str, int] = {}
        for label, block in blocks:
            self.labels[label] = len(self.instructions)
            self.instructions += block
        count = _in_whole_bytes(launch.count, source)
        self.operands = [script.declare(Sort("bits", source)) for _ in range(count)]
        self.source = _Array(script, _SOURCE, source, dict(enumerate(self.operands)))
        self.target = self.source if launch.over else _Array(script, _TARGET, target)
        self.has_places = source < 8 or target < 8
        self.width = target
        self.thread = 0
        self.registers: dict[str, Term] = {}
        #: Registers that depend on counts, addresses or threads.
        self.control: set[str] = set()

    def results(self) -> list[Term]:
        """What each element has become."""
        for self.thread in range(_BLOCKS * _BLOCK):
            self.registers, self.control = {}, set()
            self._run_thread()
        if self.target.stored != set(range(_in_whole_bytes(self.launch.count, self.width))):
            raise Refused(f"{self.launch} stores elements {sorted(self.target.stored)}")
        return [self.target.elements[place] for place in range(self.launch.count)]

    def _run_thread(self) -> None:
        at = 0
        for _ in range(_ENDLESS):
            instruction = self.instructions[at]
            stem, at = instruction.stem, at + 1
            guard = self.register(instruction.guard) if instruction.guard else truth(True)
            if guard.literal is not None:
                if instruction.guard and bool(guard.literal) == instruction.unless:
                    continue
            elif stem in _APART or stem == "ld.global":
                raise Refused(f"{instruction.opcode} that depends on an operand")
            if stem in ("bra", "bra.uni"):
                at = self.labels[instruction.operands[0]]
            elif stem == "ret":
                return
            elif stem == "st.global":
                self._store(instruction)
            elif stem == "ld.global":
                self._load(instruction)
            else:
                self._define(instruction, guard)
        raise Refused("a kernel that does not end")

    def register(self, name: str) -> Term:
        """What a register holds now."""
        if name not in self.registers:
            raise Refused(f"operand {name}")
        return self.registers[name]

    def read(self, operand: str, width: int) -> Term:
        """An operand of an instruction, as a bit-vector of that width."""
        if found := re.fullmatch(r"0([fd])([0-9A-Fa-f]+)", operand):
            return bits(int(found[2], 16), width)
        if re.fullmatch(r"-?\d+U?|0x[0-9A-Fa-f]+U?", operand):
            return bits(int(operand.rstrip("U"), 0), width)
        if operand in _SPECIAL:
            return bits(_SPECIAL[operand](self.thread), width)
        value = self.register(operand)
        if value.sort.width != width:
            raise Refused(f"{operand} of {value.sort} as {width} bits")
        return value

    def sort(self, register: str) -> Sort:
        width = self.widths[register.lstrip("%").rstrip("0123456789")]
        return Sort("bits", width) if width else BOOL

    def _define(self, instruction: Instruction, guard: Term) -> None:
        name, *operands = instruction.operands
        if instruction.stem == "ld.param":
            value = self._argument(*operands)
        elif instruction.stem == "cvta.to.global":
            value = self.register(*operands)
        else:
            value = self._computed(instruction)
        names = re.findall(r"[%\w]+", name)
        width = value.sort.width // len(names)
        reads = _REGISTER.findall(" ".join(operands))
        is_control = instruction.stem == "ld.param" or any(
            operand in self.control or operand in _SPECIAL for operand in (*operands, *reads)
        )
        for number, name in enumerate(names):
            part = value
            if len(names) > 1:
                part = self.script.extract(value, number * width, width)
            if name != "_":  # a part that is not wanted
                self._settle(instruction, name, part, guard, is_control)

    def _settle(
        self, instruction: Instruction, name: str, value: Term, guard: Term, is_control: bool
    ) -> None:
        if value.sort != self.sort(name):
            raise Refused(f"{instruction.opcode} gives {name} {value.sort}")
        if guard.literal is None:
            # Whatever it was before: if nothing, anything.
            other = self.registers.get(name) or self.script.declare(value.sort)
            is_control |= name in self.control
            pair = (other, value) if instruction.unless else (value, other)
            value = self.script.select(guard, *pair)
        if is_control and value.literal is None and not self.has_places:
            raise Refused(f"{instruction.opcode} of an operand and a count, address or thread")
        self._write(name, value, is_control=is_control and value.literal is not None)

    def _write(self, name: str, value: Term, *, is_control: bool = False) -> None:
        self.registers[name] = value
        (self.control.add if is_control else self.control.discard)(name)

    def _argument(self, address: str) -> Term:
        """An argument by its number: CuPy's arrays begin with their address."""
        launch = self.launch
        target = self.target.address
        arguments = (_SOURCE, launch.length, target, launch.threads)
        found = re.fullmatch(r"\[\w+_param_([0-3])\]", address)
        if not found:
            raise Refused(address)
        return bits(arguments[int(found[1])], 64)

    def _load(self, instruction: Instruction) -> None:
        _, _, kind = instruction.opcode.rpartition(".")
        if not re.fullmatch(r"[bfu](8|16|32|64)", kind):
            raise Refused(instruction.opcode)
        width, names = int(kind[1:]), instruction.written
        address = self._address(instruction.operands[1], width * len(names))
        array = self.target if address >= _TARGET else self.source
        for lane, name in enumerate(names):
            value = array.load(address + lane * width // 8, width, self.thread)
            self._write(name, self.script.resize(value, self.sort(name).width, signed=False))

    def _store(self, instruction: Instruction) -> None:
        width = int(instruction.opcode.rpartition(".")[2][1:])
        names = _REGISTER.findall(instruction.operands[1])
        address = self._address(instruction.operands[0], width * len(names))
        if self.target is not self.source and address < _TARGET:
            raise Refused(f"a store at {address:#x}")
        for lane, name in enumerate(names):
            value = self.register(name)
            if name in self.control or value.sort.width < width:
                raise Refused(f"{instruction.opcode} of {name}")
            value = self.script.extract(value, 0, width)
            self.target.store(address + lane * width // 8, value, self.thread)

    def _address(self, operand: str, width: int) -> int:
        """The address of so many bits, which are aligned."""
        found = re.fullmatch(r"\[(%rd\d+)(?:\+(-?\d+))?\]", operand)
        base = self.register(found[1]) if found else None
        if not found or not base or base.literal is None:
            raise Refused(f"address {operand}")
        address = base.literal + int(found[2] or 0)
        if address % (width // 8):
            raise Refused(f"{width} bits at {address:#x}")
        return address

    def _computed(self, instruction: Instruction) -> Term:
        script, (name, *operands) = self.script, instruction.operands
        stem, *modifiers, kind = instruction.opcode.split(".")
        is_packed = stem == "mov" and kind[0] == "b"
        if not (_REGISTER.fullmatch(name) or (is_packed and name.startswith("{"))):
            raise Refused(f"{instruction.opcode} of {name}")
        if kind == "pred":
            if modifiers or stem not in ("mov", "not", "and", "or", "xor"):
                raise Refused(instruction.opcode)
            constants = {"0": truth(False), "1": truth(True), "-1": truth(True)}
            truths = [constants.get(operand) or self.register(operand) for operand in operands]
            if any(each.sort != BOOL for each in truths):
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
            return [self.read(operand, width) for operand in operands]

        if letter == "f" and stem in _FLOATS and set(modifiers) <= {"rn", "ftz"}:
            numbers = [script.number(operand) for operand in read(len(operands))]
            return script.bits(script.apply(stem, *numbers, flush="ftz" in modifiers))
        if stem == "setp":
            return self._compared(modifiers, letter, read(2))
        if stem == "selp" and not modifiers:
            yes, no = (self.read(operand, width) for operand in operands[:2])
            return script.select(self.register(operands[2]), yes, no)
        if is_packed and operands[0].startswith("{"):
            parts = script.join(*map(self.register, reversed(_REGISTER.findall(operands[0]))))
            if parts.sort.width != width:
                raise Refused(f"{instruction.opcode} of {parts.sort}")
            return parts
        if stem == "mov" and not modifiers:
            return read(1)[0]
        if stem == "prmt" and not modifiers:
            return script.permuted(*read(3))
        if letter == "f":
            raise Refused(instruction.opcode)
        if stem in ("shl", "shr") and not modifiers:
            return self._shifted(stem, letter, operands, width)
        if stem == "mul" and modifiers == ["wide"] and letter in "su":
            wide = [script.resize(o, 2 * width, signed=letter == "s") for o in read(2)]
            return script.apply("mul", *wide)
        if stem == "mul" and modifiers == ["lo"]:
            return script.apply("mul", *read(2))
        if stem == "cvt" and len(modifiers) == 1 and modifiers[0][0] in "su" and letter in "su":
            source = self.register(operands[0])
            narrow = script.resize(source, width, signed=False)
            if narrow.sort.width > source.sort.width:
                raise Refused(instruction.opcode)
            made = script.resize(narrow, int(modifiers[0][1:]), signed=letter == "s")
            return script.resize(made, self.sort(name).width, signed=modifiers[0][0] == "s")
        if stem in _ENDS and not modifiers and letter in "su":
            pair = read(2)
            return script.select(script.apply(f"{letter}{_ENDS[stem]}", *pair), *pair)
        if stem == "abs" and not modifiers and letter == "s":
            (value,) = read(1)
            is_negative = script.apply("slt", value, bits(0, width))
            return script.select(is_negative, script.apply("neg", value), value)
        if stem == "clz" and not modifiers:
            return script.resize(script.leading_zeros(*read(1)), 32, signed=False)
        if stem == "bfi" and not modifiers:
            return self._inserted(operands, width)
        if stem in _INTEGERS and not modifiers:
            return script.apply(stem, *read(len(operands)))
        raise Refused(instruction.opcode)

    def _shifted(self, stem: str, letter: str, operands: list[str], width: int) -> Term:
        """Amounts are of 32 bits, and those beyond the width are the width (9.7.8)."""
        script, whole = self.script, max(width, 32)
        value, by = operands
        is_signed = stem == "shr" and letter == "s"
        operation = "shl" if stem == "shl" else "ashr" if is_signed else "lshr"
        operand = script.resize(self.read(value, width), whole, signed=is_signed)
        amount = script.resize(self.read(by, 32), whole, signed=False)
        return script.resize(script.apply(operation, operand, amount), width, signed=False)

    def _inserted(self, operands: list[str], width: int) -> Term:
        """Bits of one operand in place of those of another, from a place on (9.7.1)."""
        inserted, into, first, length = operands
        script, place, size = self.script, self.read(first, 32), self.read(length, 32)
        if place.literal is None or size.literal is None or place.literal + size.literal > width:
            raise Refused(f"a field of {length} bits at {first}")
        ones = (1 << size.literal) - 1 << place.literal
        moved = script.apply("shl", self.read(inserted, width), bits(place.literal, width))
        kept = script.apply("and", self.read(into, width), bits(~ones, width))
        return script.apply("or", kept, script.apply("and", moved, bits(ones, width)))

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


def elements(
    ptx: str, source: int, target: int, launches: Iterable[Launch]
) -> Iterator[tuple[Script, Term, Term]]:
    """For each element of each launch: a script, the operand, and the result; each once.

    ``source`` and ``target`` are the bits of an element.
    """
    widths, blocks = parse(ptx)
    known = set()
    for launch in launches:
        script = Folded()
        run = _Run(script, widths, blocks, launch, source, target)
        for operand, result in zip(run.operands, run.results(), strict=False):
            made, x, y = script.cut(operand, result)
            text = "\n".join((*made.lines, y.text))
            if text not in known:
                known.add(text)
                yield made, x, y
