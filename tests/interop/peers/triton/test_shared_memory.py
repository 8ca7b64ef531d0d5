"""Shared memory with Triton and with the service: what both read, write and refuse."""

from __future__ import annotations

import json

import numpy as np

from support.http.inference_form import (
    Answer,
    X,
    document,
    infer_path,
    tensor,
)
from support.segments import segment
from support.services.triton import Both


def test_shared_memory_is_answered_alike(both: Both) -> None:
    for server in both:
        with segment(4096) as owned:
            owned.memory[:40] = X.view(np.uint8)
            body = json.dumps({"key": "/" + owned.key, "offset": 0, "byte_size": 4096}).encode()
            path = "/v2/systemsharedmemory/region/r/register"
            assert server.request("POST", path, body).status == 200
            place = {"shared_memory_region": "r", "shared_memory_byte_size": 40}
            out = {**place, "shared_memory_offset": 64}
            request = document(
                tensor("FP32", [10], parameters=place), outputs=[{"name": "Y", "parameters": out}]
            )
            reply = server.request("POST", infer_path("round"), json.dumps(request).encode())
            # Triton does not tell where the output is, as the extension's document has it.
            assert Answer.of(reply).output.get("parameters", out) == out
            assert owned.memory[64:104].tobytes() == np.rint(X).tobytes()
            (entry,) = server.request("GET", "/v2/systemsharedmemory/status").json()
            assert entry == {"name": "r", "key": "/" + owned.key, "offset": 0, "byte_size": 4096}
            server.request("POST", "/v2/systemsharedmemory/unregister", b"")


def test_a_replaced_object_is_not_read_in_silence(both: Both) -> None:
    statuses = []
    for server in both:
        with segment(64) as owned:
            owned.memory[:40] = X.view(np.uint8)
            body = json.dumps({"key": "/" + owned.key, "offset": 0, "byte_size": 64}).encode()
            server.request("POST", "/v2/systemsharedmemory/region/r/register", body)
            spare = owned.path.with_name(owned.key + "_spare")
            spare.write_bytes(bytes(64))
            spare.rename(owned.path)
            place = {"shared_memory_region": "r", "shared_memory_byte_size": 40}
            request = document(tensor("FP32", [10], parameters=place))
            reply = server.request("POST", infer_path("round"), json.dumps(request).encode())
            statuses.append(reply.status)
            if reply.status == 200:  # of what nobody writes into any more
                assert Answer.of(reply).output["data"] == np.rint(X).tolist()
            server.request("POST", "/v2/systemsharedmemory/unregister", b"")
    assert statuses == [200, 400]
