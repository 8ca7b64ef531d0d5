"""Between client and service stands a proxy that cuts, delays and garbles.

Whatever it does, a call ends by its deadline, in the right tensor or in an error of
this package's; and what it leaves in the target is whole elements, so that calling
again is always right. One fault at a time is looked at here;
tools/stress/network.py has them all.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pytest

import tensor_round as tr
from support.cases.array_cases import Array, bits, expected_bits, patterns
from support.clients import AnyClient, answered
from support.http.proxy import FAULTLESS, Fault, Proxy, answer
from support.services.server import Service
from tensor_round.clients import session as retries

pytestmark = pytest.mark.slow

UNAVAILABLE = answer("503 Service Unavailable", b"busy", "Retry-After: 0")


def once(fault: Fault) -> Callable[[int], Fault]:
    """The first connection suffers, the next ones do not."""
    return lambda number: fault if number == 0 else FAULTLESS


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hundreds of retries; that pauses grow is tested elsewhere."""
    monkeypatch.setattr(retries, "FIRST_PAUSE", 0.001)


def answer_length(service: Service, call: Callable[[tr.Client], object]) -> int:
    """Bytes of the whole answer to a call, head and all."""
    with Proxy(service.address) as proxy, tr.Client(proxy.url) as client:
        call(client)
    return proxy.seen[0].down_bytes


STRIDES = {"shape": [3, 2], "strides": [5, 2]}
GAPS = {
    "dialect": "ieee754",
    "input": {"dtype": "float64", **STRIDES},
    "output": {"dtype": "float64", **STRIDES},
}


def strided(memory: Array) -> Array:
    """The elements of ``GAPS`` in its memory of 13."""
    return np.lib.stride_tricks.as_strided(memory, (3, 2), (40, 16))


def in_gaps(client: AnyClient, memory: Array, given: Array) -> Array:
    assert len(client.execute(GAPS, given, out=given).data) == memory.nbytes
    return strided(memory)


#: Calls for a memory, each of which returns what is rounded.
FORMS: dict[str, Callable[[AnyClient, Array], Array]] = {
    "fresh": lambda client, memory: client.round(memory),
    "in-place": lambda client, memory: client.round(memory, out=memory),
    "strided": lambda client, memory: in_gaps(client, memory, strided(memory)),
    "strided-bytes": lambda client, memory: in_gaps(client, memory, memory.view(np.uint8)),
}


@pytest.mark.parametrize(
    ("retries", "reset"), [(1, False), (0, False), (0, True)], ids=["retried", "end", "reset"]
)
@pytest.mark.parametrize("form", FORMS)
def test_an_answer_cut_at_any_byte_tears_no_element_and_is_asked_for_again(
    kind: type[AnyClient], service: Service, form: str, retries: int, reset: bool
) -> None:
    x = patterns("float64", 13)
    call, shown = FORMS[form], strided if form.startswith("strided") else np.asarray
    old, new = bits(shown(x)), expected_bits(shown(x))
    length = answer_length(service, lambda client: call(client, x.copy()))
    # Of the head nothing is written anywhere: the three ends share its bytes, and for a target in
    # place it is cut at every 16th.
    body = length - x.nbytes - len("\r\n\r\n")
    turn = retries + 2 * reset
    cuts = [*range(turn, body, 3 if form == "fresh" else 16), *range(body, length)]
    after = [FAULTLESS] * retries
    plan = [fault for cut in cuts for fault in (Fault(cut_down=cut, reset=reset), *after)]
    with Proxy(service.address, lambda number: plan[number]) as proxy:
        for cut in cuts:
            memory = x.copy()
            with kind(proxy.url, retries=retries) as client:
                if retries:
                    assert np.array_equal(bits(call(client, memory)), new), f"cut after {cut}"
                else:
                    with pytest.raises(tr.ConnectionFailed):
                        call(client, memory)
            inside = bits(shown(memory))
            assert ((inside == old) | (inside == new)).all(), f"torn by a cut after {cut}"
    assert len(proxy.seen) == len(plan)


def test_a_request_cut_anywhere_is_sent_again(kind: type[AnyClient], service: Service) -> None:
    x = patterns("float32", 20)
    expected = expected_bits(x)
    cuts = range(0, 400, 7)
    plan = [fault for cut in cuts for fault in (Fault(cut_up=cut, reset=cut % 2 == 0), FAULTLESS)]
    with Proxy(service.address, lambda number: plan[number]) as proxy:
        for _ in cuts:
            with kind(proxy.url, retries=1) as client:
                assert np.array_equal(bits(client.round(x)), expected)


ONCE: dict[str, Fault] = {
    "hung-up-at-once": Fault(cut_up=0),
    "reset": Fault(cut_down=0, reset=True),
    "unavailable": Fault(answer=UNAVAILABLE),
    "unavailable-early": Fault(answer=UNAVAILABLE, early=True),
    "late": Fault(delay_down=0.3),
    "dripping": Fault(pieces_down=64, pause_down=0.001),
}


@pytest.mark.parametrize("fault", ONCE.values(), ids=ONCE)
@pytest.mark.parametrize("tile_bytes", [1 << 20, 2000], ids=["whole", "tiles"])
def test_single_failure_is_retried(
    kind: type[AnyClient], service: Service, fault: Fault, tile_bytes: int
) -> None:
    x = patterns("float32", 2000)
    with (
        Proxy(service.address, once(fault)) as proxy,
        kind(proxy.url, tile_bytes=tile_bytes) as client,
    ):
        assert np.array_equal(bits(client.round(x)), expected_bits(x))


def test_only_the_tile_that_failed_is_sent_again(service: Service) -> None:
    x = patterns("float32", 100_000)
    with (
        Proxy(service.address, once(Fault(cut_down=30_000))) as proxy,
        tr.Client(proxy.url, tile_bytes=40_000, connections=1) as client,
    ):
        assert np.array_equal(bits(client.round(x)), expected_bits(x))
    sent = sum(seen.up_bytes for seen in proxy.seen)
    assert x.nbytes + 40_000 < sent < x.nbytes + 50_000


@pytest.mark.parametrize("size", [100, 5_000_000], ids=["small", "large"])
def test_a_refusal_before_the_body_is_read_in_place_of_a_reset(
    kind: type[AnyClient], service: Service, size: int
) -> None:
    """The service answers on the head alone, and stops listening."""
    refusal = Fault(answer=answer("413 Content Too Large"), early=True)
    with answered(kind, refusal) as client, pytest.raises(tr.UnknownRefusal) as caught:
        client.round(np.zeros(size, "<f4"))
    assert caught.value.status == 413


def test_sending_stops_when_the_answer_is_there(service: Service) -> None:
    refusal = Fault(answer=answer("403 Forbidden"), early=True)
    with (
        Proxy(None, lambda _: refusal) as proxy,
        tr.Client(proxy.url) as client,
        pytest.raises(tr.UnknownRefusal),
    ):
        client.round(np.zeros(64 << 20, np.int8))
    assert proxy.seen[0].up_bytes < 48 << 20  # how far it comes by then, the load says


LATE: dict[str, tuple[Fault, int]] = {
    "silent": (Fault(delay_down=60), 10),
    # No single wait is long; the whole is.
    "dripping": (Fault(pieces_down=1, pause_down=0.4), 10),
    "not reading": (Fault(answer=UNAVAILABLE, delay_down=60), 5_000_000),
}


@pytest.mark.parametrize(("fault", "size"), LATE.values(), ids=LATE)
def test_a_late_service_meets_the_deadline(
    kind: type[AnyClient], service: Service, fault: Fault, size: int
) -> None:
    with (
        Proxy(service.address, lambda _: fault) as proxy,
        kind(proxy.url, timeout=0.4) as client,
    ):
        began = time.monotonic()
        with pytest.raises(tr.DeadlineExceeded):
            client.round(np.zeros(size, "f4"))
        assert 0.3 < time.monotonic() - began < 20


def test_digests_catch_garbled_bytes_which_are_sent_again(
    kind: type[AnyClient], service: Service
) -> None:
    x = patterns("float32", 1000)
    length = answer_length(service, lambda client: client.round(x))
    faults = [
        Fault(garble_down=frozenset({length - 5})),
        Fault(garble_up=frozenset({3000})),
        FAULTLESS,
    ]
    for in_place in (False, True):
        with (
            Proxy(service.address, lambda number: faults[number]) as proxy,
            kind(proxy.url, digest=True) as client,
        ):
            given = x.copy()
            y = client.round(given, out=given if in_place else None)
            assert np.array_equal(bits(y), expected_bits(x))


def test_a_garbled_answer_in_place_is_never_committed(
    kind: type[AnyClient], service: Service
) -> None:
    x = patterns("float32", 1000)
    garbled = Fault(
        garble_down=frozenset({answer_length(service, lambda client: client.round(x)) - 5})
    )
    with (
        Proxy(service.address, lambda _: garbled) as proxy,
        kind(proxy.url, digest=True, retries=0) as client,
    ):
        inside = x.copy()
        with pytest.raises(tr.ProtocolViolation, match="Content-Digest"):
            client.round(inside, out=inside)
        assert np.array_equal(bits(inside), bits(x))
