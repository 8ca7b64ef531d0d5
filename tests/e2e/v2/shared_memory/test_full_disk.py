"""Workers whose common folder is on a full disk: refusals that say so, and service as ever."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.http.inference_form import EVEN, OF_X, X, document
from support.segments import PREFIX, segment
from support.services.server import Service
from support.services.workers import replaced_after
from support.small_disk import small_disk
from support.v2.callers import Caller
from support.v2.regions import TRIES, register, registered


def test_workers_on_a_full_disk(call: type[Caller], tmp_path: Path) -> None:
    options = ("--workers", "2", "--shared-memory-prefix", PREFIX)
    with small_disk(tmp_path, 4 << 20) as disk, segment(X.nbytes) as owned:
        if not disk.is_mounted:
            pytest.skip("no disk may be mounted here, and RLIMIT_FSIZE limits one process")
        with Service(*options, environment={"TMPDIR": str(disk.folder)}) as service:
            caller = call(service)

            def check() -> None:
                for _ in range(TRIES):
                    outcome = caller.infer(document(OF_X), X.tobytes())
                    assert outcome.payload == EVEN.tobytes()
                    refused = register(caller, "r", owned.key, X.nbytes)
                    assert (refused.status, "cannot be written" in refused.error) == (503, True)
                    assert refused.retry_after >= 1
                    assert registered(caller).head == []
                    assert caller.ask("ModelStatistics", name="round").status == 200

            with disk.full():
                check()
                # Those that come while it is full go on in the files of those that were killed.
                replaced_after(service)
                replaced_after(service)
                check()
            assert register(caller, "r", owned.key, X.nbytes).status == 200
        log = "".join(service.log)
        assert not re.search("(statistics|metrics): No space left", log)
        assert log.count("ended with") == log.count("ended with SIGKILL") == 2
        assert "Traceback" not in log
