"""The mutants that judge the tests: what is changed, what judges it, what is listed."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from mutants.__main__ import LISTED, ROOT, beside, modules
from mutants.judging import Order, Room
from mutants.mutations import Mutant, mutants

pytestmark = pytest.mark.slow

BEFORE = '''
"""A docstring with 1."""
from __future__ import annotations
LIMIT: int | None = 1

class Held:
    __slots__ = ("count",)

    @decorated(2)
    def take(self, n: Literal[3]) -> int:
        if n > self.count and n:
            raise ValueError(f"{n + 1}")
        self.count -= n
        assert self.count < 4
        return n
'''
#: The changes of it, and nothing else: no message, docstring, annotation, decorator or assertion.
CHANGES = {
    "LIMIT: 1 -> 2",
    "Held.take: n > self.count and n -> n > self.count or n",
    "Held.take: n > self.count -> n >= self.count",
    "Held.take: raise ValueError(f'{n + 1}') -> pass",
    "Held.take: self.count -= n -> self.count += n",
    "Held.take: self.count -= n -> pass",
    "Held.take: return n -> return None",
}


def names(text: str, *, is_kernel: bool = False) -> list[str]:
    return [mutant.name for mutant in mutants(text, is_kernel=is_kernel)]


def test_each_mutant_has_one_change_and_a_name_of_its_own() -> None:
    found = list(mutants(BEFORE))
    assert [mutant.name for mutant in found] == sorted(
        {m.name for m in found}, key=names(BEFORE).index
    )
    assert {mutant.name for mutant in found} == CHANGES
    lines = {mutant.text for mutant in found}
    assert len(lines) == len(found)
    for mutant in found:
        compile(mutant.text, "mutant", "exec")


@pytest.mark.parametrize(
    ("line", "changes"),
    [
        ("not a", ["a"]),
        ("a < b <= c", ["a <= b <= c", "a < b < c"]),
        ("a is None", ["a is not None"]),
        ("a in b", ["a not in b"]),
        ("(a + b) // c", ["(a + b) * c", "a - b"]),
        ("a << 3", ["a >> 3", "4"]),
        ("f(True)", ["pass", "False"]),
        ("a = zip(b, strict=True)", []),
        ("a = 1e17", ["2e+17"]),
        ("a = Literal[1, 2]", []),
        ("def f(): return False", ["True"]),
        ("def f(): return a", ["return None"]),
        ("b if a else c", ["not a"]),
    ],
)
def test_each_line_has_its_mutants(line: str, changes: list[str]) -> None:
    assert [name.partition(" -> ")[2] for name in names(line)] == changes


def test_changes_with_one_name_are_numbered() -> None:
    assert names("a = [1, 1]") == ["a: 1 -> 2", "a: 1 -> 2 (2)"]


def test_the_texts_of_kernels_are_changed_too() -> None:
    text = 'A = """\n  %x = add i32 %y, 3\n  if (k < 2)\n"""'
    assert names(text) == []
    assert names(text, is_kernel=True) == [
        "A: %x = add i32 %y, 3 -> %x = sub i32 %y, 3",
        "A: %x = add i32 %y, 3 -> %x = add i32 %y, 4",
        "A: if (k < 2) -> if (k <= 2)",
        "A: if (k < 2) -> if (k < 3)",
    ]


def test_every_module_is_judged_by_the_nearest_tests() -> None:
    found = {str(module): beside(module) for module in modules([])}
    assert len(found) > 40
    folder = ROOT / "tests/service/engine"
    memory = found["service/tensor_round_service/engine/memory.py"]
    assert memory[0] == folder / "test_memory.py"
    assert {file.parent for file in memory} == {folder}
    dialect = found["client/tensor_round/contract/operators/dialects/onnx.py"]
    assert {file.parent for file in dialect} == {ROOT / "tests/client/contract/operators"}


def test_a_part_of_a_path_selects() -> None:
    assert modules(["engine/job"]) == [Path("service/tensor_round_service/engine/job.py")]
    assert modules(["nowhere"]) == []


def test_each_listed_survivor_is_a_mutant_with_a_reason() -> None:
    for module, survivors in LISTED.items():
        text = (ROOT / module).read_text()
        assert survivors.keys() <= set(names(text, is_kernel=module.endswith("kernels.py"))), module
        assert all(len(reason) > 20 for reason in survivors.values())


def test_the_tests_that_ran_the_line_are_run_first_and_the_short_ones_before_others() -> None:
    order = Order({"::a": (2.0, [7]), "::b": (1.0, [8]), "::c": (3.0, [8]), "::d": (0.5, [])})
    assert order.tests(8) == {"::b": 0, "::c": 1, "::d": 2, "::a": 3}
    assert list(order.tests(9)) == ["::d", "::b", "::a", "::c"]


def test_a_mutant_tells_the_line_of_its_change() -> None:
    found = {mutant.name: mutant.line for mutant in mutants(BEFORE)}
    lines = BEFORE.splitlines()
    assert lines[found["LIMIT: 1 -> 2"] - 1].startswith("LIMIT")
    assert lines[found["Held.take: self.count -= n -> pass"] - 1].strip() == "self.count -= n"


def test_a_file_that_ran_nothing_of_a_module_is_left_out_unless_it_may_read_what_was_made() -> None:
    order = Order({"a::1": (1.0, [7]), "a::2": (2.0, []), "b::1": (3.0, [])})
    assert list(order.tests(7)) == ["a::1", "a::2"]
    assert list(order.tests(1)) == ["a::1", "a::2", "b::1"]
    assert set(Order({"a::1": (1.0, []), "b::1": (3.0, [])}).tests(7)) == {"a::1", "b::1"}


@pytest.mark.parametrize("where", ["a function", "what runs when it is imported"])
def test_a_room_judges_by_the_tests_and_knows_their_lines(tmp_path: Path, where: str) -> None:
    module = Path("service/tensor_round_service/engine/memory.py")
    text = (ROOT / module).read_text()
    room = Room(tmp_path / "room")
    room.open(module, [ROOT / "tests/service/engine/test_memory.py"])
    other = module.with_name("digests.py")
    orders = room.trace([module, other])
    order = orders[module]
    assert not any(lines for _, lines in orders[other].runs.values())
    names = {"a function": "Memory.allocate: ", "what runs when it is imported": "SMALL_"}
    broken = [m for m in mutants(text) if m.name.startswith(names[where])]
    verdicts = set()
    for mutant in broken[:3]:
        places = order.tests(mutant.line)
        if where == "a function":
            first = min(places, key=places.__getitem__)
            assert mutant.line in order.runs[first][1]
        verdicts.add(room.judge(mutant, places))
    assert "killed" in verdicts
    assert room.judge(Mutant("as it is", text, 0), order.tests(0)) == "survived"
    room.close()


SHORT = """
import numpy as np
from tensor_round_service.engine.memory import Memory

def test_that_memory_is_allocated():
    assert Memory(np.empty, 1 << 20).allocate(5).size == 5
"""
WITH_A_THREAD = f"""
import threading
{SHORT}
thread = threading.Thread(target=threading.Event().wait, daemon=True)
thread.start()

def test_that_the_thread_lives():
    assert thread.is_alive()
"""


@pytest.mark.parametrize(
    ("tests", "is_traced"),
    [(SHORT, False), (WITH_A_THREAD, True)],
    ids=["at-once", "thread-and-traced"],
)
def test_no_mutant_is_there_when_the_next_is_judged(
    tmp_path: Path, tests: str, is_traced: bool
) -> None:
    """Neither in what is forked, nor while tests are collected.

    A fork would be without the thread that tests begin then, and might wait for it.
    """
    module = Path("service/tensor_round_service/engine/memory.py")
    found = {mutant.name: mutant for mutant in mutants((ROOT / module).read_text())}
    noticed = found["Memory.allocate: found is None -> found is not None"]
    unnoticed = found["Memory.allocate: self._shrink_pool() -> pass"]
    room = Room(tmp_path / "room")
    (ROOT / "build").mkdir(exist_ok=True)
    with TemporaryDirectory(dir=ROOT / "build") as folder:
        file = Path(folder, "test_memory.py")
        file.write_text(tests)
        room.open(module, [file])
        order = room.trace([module])[module] if is_traced else Order()
        for mutant, verdict in (
            (noticed, "killed"),
            (unnoticed, "survived"),
            (noticed, "killed"),
        ):
            assert room.judge(mutant, order.tests(mutant.line)) == verdict
        room.close()
