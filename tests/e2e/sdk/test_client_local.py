"""``local:``, the engine in the client's own process: what is not as it is with a service.

That results and refusals are the same is tested by every test of both clients on a service:
they have this for another place.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import httpx2
import numpy as np
import pytest

import tensor_round as tr
from support.cases.array_cases import bits, expected_bits, patterns
from support.cases.descriptors import ieee754
from support.clients import AnyClient
from support.command_line import good
from support.memory import traced
from tensor_round.contract import errors
from tensor_round.contract.call import Call
from tensor_round_service import local
from tensor_round_service.backends.select import compiled_kernels

WEB = ("fastapi", "starlette", "uvicorn", "httptools", "pydantic_settings", "httpx2", "typer")


def python(code: str, *arguments: str) -> str:
    command = [sys.executable, "-c", code, *arguments]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_it_loads_no_web_framework() -> None:
    code = (
        "import sys, numpy as np, tensor_round as tr\n"
        "with tr.Client('local:') as client:\n"
        "    client.round(np.zeros(3)); client.operators(); client.ready()\n"
        f"print(sorted(set({WEB!r}) & set(sys.modules)))"
    )
    assert python(code) == "[]"


def test_without_the_engine_the_error_names_the_extra() -> None:
    code = (
        "import sys\n"
        "sys.modules['tensor_round_service'] = None\n"
        "import tensor_round as tr\n"
        "try:\n"
        "    tr.Client('local:')\n"
        "except tr.InvalidArgument as error:\n"
        "    print(error)"
    )
    told = python(code)
    assert told.startswith("local: needs the engine: pip install 'tensor-round[compiled]'")
    assert len(told.splitlines()) == 1


def test_rounding_in_place_takes_no_memory(kind: type[AnyClient]) -> None:
    kernels = compiled_kernels()
    assert kernels is not None
    kernels.wait()  # NumPy's work in blocks beside the tensor
    x = np.full(8 << 20, 0.5, np.float32)
    out = np.empty_like(x)
    with kind("local:") as client:
        client.round(x[:3])
        for target in (out, x):
            with traced() as most:
                assert client.round(x, out=target) is target
                peak = most()
            assert peak < 1 << 20
            assert not target.any()


@pytest.mark.parametrize("kernels", ["compiled", "numpy"])
def test_elements_that_lie_across_words(kernels: str) -> None:
    """A service's buffers begin on a page; a caller's may begin anywhere."""
    code = (
        "import sys\n"
        "if sys.argv[1] == 'numpy': sys.modules['llvmlite'] = None\n"
        "import numpy as np, tensor_round as tr\n"
        "from support.cases.array_cases import bits, expected_bits, patterns\n"
        "with tr.Client('local:') as client:\n"
        "    for name in ('float16', 'bfloat16', 'float32', 'float64'):\n"
        "        x = patterns(name, 5000)\n"
        "        memory = np.zeros(x.nbytes + 1, np.uint8)\n"
        "        unaligned = memory[1:].view(x.dtype)\n"
        "        unaligned.view(f'u{x.itemsize}')[...] = bits(x)\n"
        "        y = client.round(unaligned, 'ties_to_away')\n"
        "        assert np.array_equal(bits(y), expected_bits(x, 'ties_to_away')), name\n"
        "        client.round(unaligned, 'ties_to_away', out=unaligned)\n"
        "        assert np.array_equal(bits(unaligned), bits(y)), name\n"
    )
    python(code, kernels)


def test_a_deadline_holds_between_pieces(kind: type[AnyClient]) -> None:
    x = np.zeros(96 << 20, np.uint8).view(np.float64)
    with kind("local:", timeout=0.001, tile_bytes=1 << 30) as client:
        began = time.monotonic()
        with pytest.raises(tr.DeadlineExceeded):
            client.round(x, out=x)
        assert time.monotonic() - began < 20


def test_a_cancelled_call_writes_no_more() -> None:
    async def main() -> None:
        async with tr.AsyncClient("local:", tile_bytes=1 << 30) as client:
            await client.round(np.zeros(3))
            x = np.full(32 << 20, 0.5, np.float32)
            call = asyncio.create_task(client.round(x, out=x))
            await asyncio.sleep(0.005)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            x[:] = 0.5
            await asyncio.sleep(0.2)
            assert (x == 0.5).all()

    asyncio.run(main())


def test_a_forked_child_rounds() -> None:
    with tr.Client("local:") as client:
        x = patterns("float32", 100_000)
        client.round(x)
        child = os.fork()
        if child == 0:
            code = 1
            try:
                code = int(not np.array_equal(bits(client.round(x)), expected_bits(x)))
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0


def test_a_payload_of_another_size_is_refused_as_the_service_does() -> None:
    descriptor = json.dumps(ieee754("float32", [3])).encode()
    with pytest.raises(tr.PayloadSizeMismatch, match="must have 12 bytes for this descriptor"):
        local.open_engine().resolve((descriptor,), 11)


def test_engine_failure_is_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = local.LocalEngine()

    def fail(call: Call, source: object, target: object) -> str:
        raise MemoryError

    monkeypatch.setattr(engine._engine.backend, "round", fail)
    call = engine.resolve((json.dumps(ieee754("float32", [3])).encode(),), 12)
    memory = memoryview(bytearray(12))
    with pytest.raises(errors.Overloaded):
        engine.round_run(call, 0, memory, memory)


def test_it_takes_no_transport() -> None:
    with (
        httpx2.HTTPTransport() as transport,
        pytest.raises(tr.InvalidArgument, match="an http, https or unix URL"),
    ):
        tr.Client("local:", transport=transport)


def test_the_command_line_without_a_service(tmp_path: Path) -> None:
    x = patterns("float16", 1000)
    np.save(tmp_path / "in.npy", x)
    for arguments in (
        ["round", "in.npy", "out.npy", "--operator", "openvino:half_away_from_zero"],
        ["ping"],
        ["conformance"],
    ):
        good(*arguments, url="local:", folder=tmp_path)
    y = np.load(tmp_path / "out.npy")
    assert np.array_equal(bits(y), expected_bits(x, "ties_to_away"))
