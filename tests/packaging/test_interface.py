"""What docs/api-policy.md promises, against the record of the last release."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import interface
from tensor_round.contract.version import RELEASE

ROOT = Path(__file__).parents[2]
RECORD = Path(__file__).with_name("interface.txt").read_text()
RELEASED = RECORD.split()[1].partition("+")[0]
#: Subjects that lost something on purpose, and the words of CHANGELOG.md that say so.
BREAKS = {
    "setting KEEP_ALIVE": "KEEP_ALIVE is 75 s (before 5 s)",
    "tensor_round.from_dxdispatch": "the default `feature_level` of `from_dxdispatch`",
    r"tensor_round_verify\.(MODELS|Model(\.around)?)": "`conformance.MODELS` and `Model`",
    r"tensor_round_verify\.(Explanation|Comparison)": "`models` of explanations, of comparisons",
    r"tensor_round_verify\.NotTaken(\.restate)?": "`conformance.NotTaken`",
}


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("a b", "a b c", None),
        ("a b", "a c", {"b"}),
        ("a! b", "a b", None),
        ("a b", "a! b", {"a", "a!"}),
        ("a b", "a b c!", {"c!"}),
        ("a=1", "a=2", {"a=1"}),
        ("a", "", {"gone"}),
    ],
)
def test_additions_are_compatible_and_what_callers_miss_is_not(
    old: str, new: str, found: set[str] | None
) -> None:
    now = {"subject": set(new.split())} if new else {}
    lost = interface.lost({"subject": set(old.split())}, now)
    assert lost == ({"subject": found} if found else {})


def test_each_break_of_the_released_interface_is_listed() -> None:
    now = interface.interface()
    lost = interface.lost(interface.read(RECORD), now)
    announced = {subject: [row for row in BREAKS if re.fullmatch(row, subject)] for subject in lost}
    assert {subject: lost[subject] for subject, rows in announced.items() if not rows} == {}
    assert {row for rows in announced.values() for row in rows} == BREAKS.keys()
    newest = (ROOT / "CHANGELOG.md").read_text().split("\n## ")[1]
    sections = re.findall(r"^### (?:Changed|Removed)\n(.*?)(?=^### |\Z)", newest, re.M | re.S)
    told = " ".join("".join(sections).split())
    assert [words for words in BREAKS.values() if words not in told] == []


def test_a_break_makes_a_new_minor_version() -> None:
    """Of 0.x; from 1.0 on, a major one."""
    released, now = RELEASED.split("."), RELEASE.split(".")
    parts = 1 if int(now[0]) else 2
    assert not BREAKS or [*map(int, now[:parts])] > [*map(int, released[:parts])]
