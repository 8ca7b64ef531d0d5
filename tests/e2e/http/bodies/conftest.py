"""A service that has seen no such request before, or some."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from support.http.responses import LARGE, Answers, inference, message, tensor
from support.services.hosted import HostedService


@pytest.fixture(params=["first", "later"])
def service(request: pytest.FixtureRequest) -> Iterator[HostedService]:
    """One that has seen no such request before, or some."""
    with HostedService() as running:
        if request.param == "later":
            with contextlib.closing(running.connect()) as plug:
                answers = Answers(plug)
                for size in (64, 1024, 160 << 10, *LARGE):
                    # One by one: two at once may be more than both ends' kernels hold unread.
                    for sent in (message(tensor(size)), inference(tensor(size), "a")):
                        plug.sendall(sent)
                        assert answers.next()[0] == 200
        yield running
