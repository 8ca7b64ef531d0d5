"""The service as a replica's actor starts it: it drains when the actor has ended, however."""

from __future__ import annotations

import subprocess
import sys
import time

from support.http.responses import Answers, message, tensor
from support.services.server import Service

#: Starts the service as an actor does.
ACTOR = """
import subprocess, sys, time
command = [sys.executable, "-m", "tensor_round_service.fleet.child"]
child = subprocess.Popen(command, stdin=subprocess.PIPE)
time.sleep(600)
"""


def acted(
    _module: str, _options: list[str], environment: dict[str, str], errors: int
) -> subprocess.Popen[bytes]:
    environment = {**environment, "TENSOR_ROUND_PORT": "0"}
    return subprocess.Popen([sys.executable, "-c", ACTOR], stderr=errors, env=environment)


class Child(Service):
    """Its process is the actor."""

    launch = staticmethod(acted)

    def has_ended(self, within: float = 10.0) -> bool:
        """Whether the service ends in so many seconds, and as after SIGTERM."""
        deadline = time.monotonic() + within
        while not (is_over := any("Finished server process" in line for line in self.log)):
            if time.monotonic() > deadline:
                break
            time.sleep(0.02)
        return is_over


def test_it_drains_when_its_actor_is_killed() -> None:
    with Child() as service:
        x = tensor(1 << 20)
        request = message(x)
        with service.connect() as sock:
            sock.sendall(request[:-100_000])
            service.process.kill()
            time.sleep(0.2)
            sock.sendall(request[-100_000:])
            Answers(sock).expect(x)
            assert service.has_ended()
