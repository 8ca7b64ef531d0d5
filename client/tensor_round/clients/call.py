"""Rounding without a client of one's own."""

from __future__ import annotations

import os
from functools import lru_cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Literal, TypeVar

from ..contract.progress import ProgressCallback
from ..contract.rounding import Rounding, RoundingName
from .client import Client

if TYPE_CHECKING:
    from ..contract.operators.operator import RoundOperator
    from ..contract.operators.registry import OperatorWord

A = TypeVar("A")


def round(
    x: A,
    operator: RoundOperator | OperatorWord | RoundingName | Rounding | None = None,
    *,
    rounding: RoundingName | Rounding | None = None,
    out: A | None = None,
    progress: bool | ProgressCallback = False,
    decimals: Literal[0] = 0,
) -> A:
    """Round every element of ``x``; returns an array of the same type, dtype and shape.

    The service's engine rounds it in this process, if it is installed. Otherwise the service at
    TENSOR_ROUND_URL does, by default the one at http://127.0.0.1:8000. The arguments and the
    errors are those of :meth:`Client.round`.
    """
    client = _client(*map(os.environ.get, ("TENSOR_ROUND_URL", "TENSOR_ROUND_API_KEY")))
    return client.round(
        x, operator, rounding=rounding, out=out, progress=progress, decimals=decimals
    )


@lru_cache(maxsize=1)
def _client(url: str | None, api_key: str | None) -> Client:
    """The process's client; it is made anew if the environment has changed."""
    return Client("local:" if find_spec("tensor_round_service") else url, api_key=api_key)
