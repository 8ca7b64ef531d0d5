"""How many of its own functions the client calls for a small array, in how many files. No clock."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np
import pytest

import tensor_round as tr
from support.services.hosted import HostedService

CLIENT = Path(tr.__file__).parent
#: A call, its result by NumPy, and for an array of 1 KiB the most calls of the client's functions,
#: and the most files that these are in.
CASES: dict[str, tuple[Callable[[tr.Client, Any], Any], Callable[[Any], Any], int, int]] = {
    "round": (lambda client, x: client.round(x), np.rint, 55, 9),
    "cast": (lambda client, x: client.cast(x, "float16"), lambda x: x.astype(np.float16), 56, 9),
    "quantize": (
        lambda client, x: client.quantize(x, 0.5, 3),
        lambda x: (np.rint(x * 2) + 3).astype(np.int8),
        93,
        12,
    ),
}


@pytest.mark.parametrize(("call", "right", "most", "most_files"), CASES.values(), ids=CASES)
def test_calls_of_a_small_array(
    monkeypatch: pytest.MonkeyPatch,
    call: Callable[[tr.Client, Any], Any],
    right: Callable[[Any], Any],
    most: int,
    most_files: int,
) -> None:
    x = np.linspace(-9, 9, 256, dtype=np.float32)
    # The service, in this process, imports it; a client's application may not.
    monkeypatch.delitem(sys.modules, "opentelemetry.trace", raising=False)
    with HostedService() as service, tr.Client(service.url) as client:
        for _ in range(3):  # first calls import modules and fill caches
            call(client, x)
        counts: Counter[CodeType] = Counter()

        def count(frame: FrameType, event: str, _argument: Any) -> None:
            if event == "call" and frame.f_code.co_filename.startswith(str(CLIENT)):
                counts[frame.f_code] += 1

        sys.setprofile(count)
        try:
            result = call(client, x)
        finally:
            sys.setprofile(None)
    np.testing.assert_array_equal(result, right(x))
    files = {code.co_filename for code in counts}
    listed = "\n".join(
        f"{number:4} {Path(code.co_filename).relative_to(CLIENT)} {code.co_qualname}"
        for code, number in counts.items()
    )
    assert counts.total() <= most, f"{counts.total()} calls:\n{listed}"
    assert len(files) <= most_files, f"{len(files)} files:\n{listed}"
