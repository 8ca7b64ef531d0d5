"""Which address a request goes to: loads, failures and times, all made up."""

from __future__ import annotations

import heapq
import random
from collections.abc import Iterable

import pytest

from tensor_round.transport.balancer import (
    FIRST_EJECTION,
    LONGEST_EJECTION,
    REQUEST_BYTES,
    Balancer,
    Endpoint,
)

MIB = 1 << 20


def balancer(urls: Iterable[str]) -> Balancer[None]:
    made = Balancer[None]()
    made.replace(urls, lambda url: None)
    return made


def chosen(among: Balancer[None], nbytes: int = 0, now: float = 0.0) -> Endpoint[None]:
    return among.choose(nbytes, now)


def named(among: Balancer[None], url: str) -> Endpoint[None]:
    return among.endpoints[url]


def eject(among: Balancer[None], endpoint: Endpoint[None], began: float, now: float) -> float:
    """The seconds of its ejection."""
    among.eject(endpoint, began, now, "lost")
    return endpoint.until - now


def test_a_request_goes_where_the_least_bytes_are_outstanding() -> None:
    among = balancer("ab")
    first = chosen(among, 64 * MIB)
    other = chosen(among, MIB)
    assert other is not first
    for _ in range(11):
        assert chosen(among, MIB) is other
    assert first.outstanding == 64 * MIB + REQUEST_BYTES
    among.release(first, 64 * MIB)
    assert first.outstanding == 0
    assert chosen(among, MIB) is first


def test_equals_take_turns_and_no_address_is_the_first_of_every_client() -> None:
    among = balancer("abcd")
    taken = []
    for _ in range(8):
        taken.append(chosen(among))
        among.release(taken[-1], 0)
    assert {endpoint.url for endpoint in taken[:4]} == set("abcd")
    assert taken[4:] == taken[:4]
    assert {chosen(balancer("abcd")).url for _ in range(100)} == set("abcd")


def mean_delay(speeds: tuple[float, ...], *, in_turn: bool) -> float:
    """Of mixed sizes at 80 % load, at addresses that serve their requests one after another.

    ``in_turn`` chooses the addresses in turn, by leaving nothing outstanding.
    """
    draw = random.Random(7)
    among = balancer(map(str, range(len(speeds))))
    free_at = [0.0] * len(speeds)
    under_way: list[tuple[float, int, Endpoint[None], int]] = []
    now = total = 0.0
    for number in range(5000):
        nbytes = int(2 ** draw.uniform(10, 26))
        now += draw.expovariate(0.8 * sum(speeds)) * 6.1 * MIB  # the mean size
        while under_way and under_way[0][0] <= now:
            _, _, endpoint, size = heapq.heappop(under_way)
            among.release(endpoint, size)
        endpoint = chosen(among, nbytes, now)
        place = int(endpoint.url)
        free_at[place] = max(now, free_at[place]) + nbytes / speeds[place]
        total += free_at[place] - now
        heapq.heappush(under_way, (now if in_turn else free_at[place], number, endpoint, nbytes))
    return total / 5000


@pytest.mark.parametrize("speeds", [(1.0, 1.0, 1.0), (1.0, 2.0, 4.0)], ids=str)
def test_mixed_sizes_wait_for_less_than_half_as_long_as_in_turn(speeds: tuple[float, ...]) -> None:
    by_bytes, in_turn = (mean_delay(speeds, in_turn=each) for each in (False, True))
    assert by_bytes < in_turn / 2, (by_bytes / MIB, in_turn / MIB)


def test_an_ejected_address_gets_no_request_until_a_probe_succeeds() -> None:
    among = balancer("ab")
    bad = named(among, "a")
    seconds = eject(among, bad, 0.0, 10.0)
    assert FIRST_EJECTION / 2 < seconds <= FIRST_EJECTION
    assert {chosen(among, now=10.5).url for _ in range(9)} == {"b"}
    assert among.claim_probe(10.0 + seconds / 2, 2.0) is None
    after = 11.1
    assert among.claim_probe(after, 2.0) is bad
    # For one request alone: the others go on meanwhile.
    assert among.claim_probe(after, 2.0) is None
    assert chosen(among, now=after).url == "b"
    among.readmit(bad, after, is_probe=True)
    assert chosen(among, now=after) is bad


def test_ejections_double_until_a_request_succeeds() -> None:
    among = balancer("ab")
    bad, now = named(among, "a"), 0.0
    for number in range(8):
        now += 100
        seconds = eject(among, bad, now, now)
        most = min(FIRST_EJECTION * 2**number, LONGEST_EJECTION)
        assert 0.7 * most <= seconds <= most
        among.readmit(bad, now + 99, is_probe=True)
    among.readmit(bad, now + 99)
    seconds = eject(among, bad, now + 100, now + 100)
    assert seconds <= FIRST_EJECTION


def test_many_requests_on_a_lost_connection_are_one_failure() -> None:
    among = balancer("ab")
    bad = named(among, "a")
    until = 2.0 + eject(among, bad, began=1.0, now=2.0)
    for began in (0.5, 1.0, 1.9):
        eject(among, bad, began, now=2.1)
        # Nor is the address well because a response was under way.
        among.readmit(bad, began)
    assert bad.until == until
    assert bad.failures == 1
    assert bad.is_ejected


def test_a_busy_address_is_avoided_and_then_open_without_a_probe() -> None:
    among = balancer("ab")
    busy = named(among, "a")
    among.avoid(busy, 5.0, 7.0)
    assert {chosen(among, now=11.9).url for _ in range(9)} == {"b"}
    assert among.claim_probe(12.1, 2.0) is None
    assert chosen(among, now=12.1) is busy
    among.avoid(busy, 20.0, 86_400.0)
    assert busy.rank(20.0 + LONGEST_EJECTION)[0] == 0


def test_without_an_open_address_the_likeliest_one_is_tried() -> None:
    among = balancer("abc")
    for now, url in enumerate("bca"):
        eject(among, named(among, url), now, now)
    assert not among.has_open(3.0)
    assert chosen(among, now=3.0).url == "b"
    eject(among, named(among, "b"), 3.0, 3.0)
    assert chosen(among, now=3.0).url == "c"
    among.readmit(named(among, "c"), 4.0)
    among.avoid(named(among, "c"), 4.0, 5.0)
    assert chosen(among, now=4.5).url == "c"


def test_addresses_come_and_go() -> None:
    among = balancer("abc")
    for url in "abc":
        assert chosen(among, 100, 0.0).url in "abc", url
    a, b = named(among, "a"), named(among, "b")
    among.release(b, 100)
    gone = among.replace("cd", lambda url: None)
    # The one with a request under way ends later.
    assert gone == [b]
    assert set(among.endpoints) == {"c", "d"}
    assert among.release(a, 100)
    assert not among.release(named(among, "c"), 100)
    assert not among.replace("dca", lambda url: None)
    assert named(among, "a") is not a


def test_a_child_has_none_of_its_parent_s_requests() -> None:
    among = balancer("ab")
    chosen(among, MIB)
    among.reset_after_fork()
    assert [endpoint.outstanding for endpoint in among.endpoints.values()] == [0, 0]
