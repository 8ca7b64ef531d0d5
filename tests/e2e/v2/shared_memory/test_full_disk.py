"""Workers whose common folder is on a full disk: refusals that say so, and service as ever."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest

from support.http.inference_form import EVEN, Answer, X, binary, document, error_of, infer
from support.segments import PREFIX, segment
from support.services.server import Reply, Service
from support.services.workers import replaced_after, serving
from support.small_disk import small_disk

TRIES = 12  # enough that both workers have had their turn


def register(service: Service, key: str) -> Reply:
    body = json.dumps({"key": key, "offset": 0, "byte_size": X.nbytes}).encode()
    return service.request("POST", "/v2/systemsharedmemory/region/r/register", body)


def test_workers_on_a_full_disk(tmp_path: Path) -> None:
    options = ("--workers", "2", "--shared-memory-prefix", PREFIX)
    request = document(binary("FP32", [10], X.nbytes), parameters={"binary_data_output": True})
    with small_disk(tmp_path) as disk, segment(X.nbytes) as owned:
        if not disk.is_mounted:
            pytest.skip("no disk may be mounted here, and a limit on files is one process's own")
        with Service(*options, environment={"TMPDIR": str(disk.folder)}) as service:
            while serving(service) < 2:
                time.sleep(0.01)

            def check() -> None:
                for _ in range(TRIES):
                    answer = Answer.of(infer(service, request, X.tobytes()))
                    assert answer.payload == EVEN.tobytes()
                    refused = register(service, owned.key)
                    assert (refused.status, "cannot be written" in error_of(refused)) == (503, True)
                    assert refused.headers["Retry-After"]
                    assert service.get("/v2/systemsharedmemory/status").json() == []
                    assert service.get("/v2/models/round/stats").status == 200

            with disk.full():
                check()
                # Those that come while it is full go on in the files of those that were killed.
                replaced_after(service)
                replaced_after(service)
                check()
            assert register(service, owned.key).status == 200
        log = "".join(service.log)
        assert not re.search("(statistics|metrics): No space left", log)
        assert log.count("ended with") == log.count("ended with SIGKILL") == 2
        assert "Traceback" not in log
