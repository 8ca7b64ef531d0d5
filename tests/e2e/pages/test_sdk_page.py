"""docs/sdk.md: the values that it shows beside calls are right."""

from __future__ import annotations

import numpy as np

import tensor_round as tr
from support.pages import ROOT
from support.services.server import Service

PAGE = "docs/sdk.md"


def test_the_values_beside_the_calls_are_right(service: Service) -> None:
    x = np.array([-2.5, -0.3, 0.5, 1.5, 2.5], np.float32)
    page = (ROOT / PAGE).read_text()
    with tr.Client(service.url) as client:
        for rounding in ("ties_to_even", "ties_to_away", "toward_zero"):
            assert f"# {client.round(x, rounding)}" in page


def test_every_error_is_in_the_table() -> None:
    page = (ROOT / PAGE).read_text()
    kinds = [getattr(tr, name) for name in tr.__all__]
    errors = [k for k in kinds if isinstance(k, type) and issubclass(k, BaseException)]
    assert len(errors) >= 25
    assert [k.__name__ for k in errors if f"\n| `{k.__name__}` | " not in page] == []
