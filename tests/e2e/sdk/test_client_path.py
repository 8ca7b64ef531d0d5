"""What a reader of the client must open to follow one call."""

from __future__ import annotations

import subprocess
import sys

from support.services.server import Service

#: A reader who follows a call from the client to the socket and back opens no more.
MOST_FILES = 11
#: In a process that has imported nothing else: a client asks other libraries if they are there.
CODE = """
import sys
from pathlib import Path
import numpy as np, tensor_round as tr

root, visited = Path(tr.__file__).parent, set()

def visit(frame, event, argument):
    path = Path(frame.f_code.co_filename)
    if path.is_relative_to(root):
        visited.add(path.relative_to(root).as_posix())

with tr.Client(sys.argv[1]) as client:
    x = np.array([-2.5, 0.5, 1.5], np.float32)
    client.round(x)
    sys.setprofile(visit)
    y = client.round(x)
    sys.setprofile(None)
assert y.tolist() == [-2.0, 0.0, 2.0]
print(*sorted(visited))
"""


def test_a_repeated_call_goes_through_few_files(service: Service) -> None:
    command = [sys.executable, "-c", CODE, service.url]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    visited = set(done.stdout.split())
    assert {"clients/client.py", "transport/http.py", "contract/wire/http1.py"} <= visited
    assert len(visited) <= MOST_FILES, " ".join(sorted(visited))
