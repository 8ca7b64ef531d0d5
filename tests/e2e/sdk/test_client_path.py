"""The files of this package that a repeated call goes through."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import tensor_round as tr
from support.services.server import Service

CLIENT = Path(tr.__file__).parent
#: A reader who follows a call from the client to the socket and back opens no more.
MOST_FILES = 12


def test_a_repeated_call_goes_through_few_files(service: Service) -> None:
    visited: set[str] = set()

    def visit(frame: FrameType, event: str, argument: Any) -> None:
        path = Path(frame.f_code.co_filename)
        if path.is_relative_to(CLIENT):
            visited.add(str(path.relative_to(CLIENT)))

    x = np.array([-2.5, 0.5, 1.5], np.float32)
    with tr.Client(service.url) as client:
        client.round(x)
        before = sys.getprofile()
        sys.setprofile(visit)
        try:
            y = client.round(x)
        finally:
            sys.setprofile(before)
    assert y.tolist() == [-2.0, 0.0, 2.0]
    assert {"clients/client.py", "transport/http.py", "contract/wire/http1.py"} <= visited
    assert len(visited) <= MOST_FILES, " ".join(sorted(visited))
