"""The digests of a backend's results for all patterns, beside the published ones."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tensor_round.contract.call import RoundCall
from tensor_round.contract.digests import DIGESTS
from tensor_round.contract.errors import BackendFailed
from tensor_round.contract.rounding import Rounding
from tensor_round_service.backends import Bytes, Round
from tensor_round_service.backends.cpu.backend import NumpyBackend
from tensor_round_service.engine.digests import report


class Two(NumpyBackend):
    """A backend with a second arithmetic."""

    def __init__(self, other: Round) -> None:
        super().__init__(1)
        self.other = other

    def arithmetics(self) -> Mapping[str, Round]:
        return {**super().arithmetics(), "other": self.other}


def test_a_right_backend_conforms_with_every_published_digest() -> None:
    backend = NumpyBackend(1)
    found = report(backend)
    assert found["conforms"] is True
    assert found["backends"].keys() == {"numpy"}
    cells = {
        (dtype, rounding): cell
        for dtype, row in found["backends"]["numpy"].items()
        for rounding, cell in row.items()
    }
    assert cells == {
        key: {"sha256": published, "matches_published": True} for key, published in DIGESTS.items()
    }


def test_one_wrong_result_of_one_arithmetic_is_found_where_it_is() -> None:
    def wrong(call: RoundCall, source: Bytes, target: Bytes) -> str:
        name = backend.round(call, source, target)
        if (call.input.dtype.name, call.rounding) == ("bfloat16", Rounding.TOWARD_ZERO):
            target[-1] ^= 1
        return name

    backend = Two(wrong)
    found = report(backend)
    assert found["conforms"] is False
    assert [
        (name, dtype, rounding)
        for name, table in found["backends"].items()
        for dtype, row in table.items()
        for rounding, cell in row.items()
        if not cell["matches_published"]
    ] == [("other", "bfloat16", "toward_zero")]


@pytest.mark.parametrize("failure", [MemoryError("none"), RuntimeError("the device is lost")])
def test_a_backend_that_fails_may_be_asked_again(failure: Exception) -> None:
    def broken(call: RoundCall, source: Bytes, target: Bytes) -> str:
        raise failure

    backend = Two(broken)
    with pytest.raises(BackendFailed, match="test patterns") as refused:
        report(backend)
    assert refused.value.retry_after == 1
    assert refused.value.__cause__ is failure
