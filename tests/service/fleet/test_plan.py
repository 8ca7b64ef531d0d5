"""Which replicas are started and drained, by tables; without Ray."""

from __future__ import annotations

import time

import pytest

from tensor_round_service.fleet.plan import NO_ROOM_SECONDS, Member, Phase, next_steps

PHASES = {
    "p": Phase.PENDING,
    "s": Phase.STARTING,
    "R": Phase.READY,
    "f": Phase.FAILING,
    "d": Phase.DRAINING,
}


def fleet(text: str) -> list[Member]:
    """A letter of PHASES for each replica, and ``'`` behind an outdated one."""
    members: list[Member] = []
    for letter in text:
        if letter == "'":
            members[-1].is_current = False
        else:
            members.append(Member(f"{len(members)}", PHASES[letter]))
    return members


@pytest.mark.parametrize(
    ("replicas", "wanted", "start", "drain"),
    [
        ("", 3, 3, ""),
        ("RRR", 3, 0, ""),
        ("RpR", 3, 0, ""),
        ("Rd", 3, 2, ""),  # one that drains does not count
        ("Rf", 2, 0, ""),  # one that fails is not given up yet
        # fewer are wanted: those that do not serve go first
        ("RRR", 1, 0, "01"),
        ("RsR", 2, 0, "1"),
        ("RRp", 2, 0, "2"),
        ("RfR", 2, 0, "1"),
        ("RRR", 0, 0, "012"),
        ("Rs'p", 0, 0, "120"),
        # an update: one more is started, and one goes when enough others serve
        ("R'R'R'", 3, 1, ""),
        ("R'R'R's", 3, 0, ""),
        ("R'R'R'R", 3, 0, "0"),
        ("dR'R'R", 3, 1, ""),
        ("R'RRR", 3, 0, "0"),
        ("s'R'R'", 3, 1, ""),
        ("s'R'R'p", 3, 0, "0"),
        ("R'f'R", 2, 0, "1"),
        # one of the others fails during an update
        ("R'R'fR", 3, 0, ""),
        # an update that changes the number too
        ("R'", 3, 3, ""),
        ("R'R'R'", 1, 0, "01"),
    ],
)
def test_steps(replicas: str, wanted: int, start: int, drain: str) -> None:
    count, drained = next_steps(fleet(replicas), wanted)
    assert (count, "".join(member.name for member in drained)) == (start, drain)


@pytest.mark.parametrize(
    ("replicas", "wanted", "drain"),
    [
        ("R'R'p", 2, "0"),
        ("R'Rp", 2, "0"),
        ("R'p", 1, ""),  # the only one is not given up
        ("dR'p", 2, ""),
        ("f'R'p", 2, "0"),
        ("RRp", 3, ""),  # no update
    ],
)
def test_an_update_goes_on_where_there_is_no_room(replicas: str, wanted: int, drain: str) -> None:
    members = fleet(replicas)
    assert "0" not in [
        member.name for member in next_steps(members, wanted)[1] if member.phase is Phase.READY
    ]
    for member in members:
        member.since = time.monotonic() - NO_ROOM_SECONDS - 1
    assert "".join(member.name for member in next_steps(members, wanted)[1]) == drain


def test_of_equals_the_one_with_company_and_little_to_do_goes() -> None:
    members = fleet("RRR")
    for member, node, load in zip(members, "abb", (0.0, 0.9, 0.1), strict=True):
        member.node, member.load = node, load
    assert [member.name for member in next_steps(members, 2)[1]] == ["2"]


def test_updates_end_with_the_wanted_replicas() -> None:
    """Step by step, with one place more than wanted or none, and never fewer ready than told."""
    for places, floor in ((4, 3), (3, 2)):
        members = fleet("R'R'R'")
        for turn in range(30):
            count, drained = next_steps(members, 3)
            for member in drained:
                member.enter(Phase.DRAINING)
            members += (Member(f"new {turn} {n}") for n in range(count))
            ready = sum(member.phase is Phase.READY for member in members)
            assert ready >= floor
            members = [member for member in members if member.phase is not Phase.DRAINING]
            placed = [member for member in members if member.phase is not Phase.PENDING]
            for member in members:
                if member.phase is Phase.PENDING and len(placed) < places:
                    member.enter(Phase.READY)
                    placed.append(member)
                elif member.phase is Phase.PENDING:
                    member.since -= NO_ROOM_SECONDS + 1
        assert [member.phase for member in members if member.is_current] == [Phase.READY] * 3
        assert len(members) == 3
