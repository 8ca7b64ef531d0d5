"""tritonclient.grpc as a process of its own: what it needs is not what the service is tested with.

``python -m bench.peers.triton_client PORT BYTES STREAMS WARM_UP``: see
:func:`..measuring.blocks.answer`.
"""

from __future__ import annotations

import sys
from functools import partial
from queue import SimpleQueue
from typing import Any

import tritonclient.grpc as triton

from ..measuring.blocks import answer
from ..measuring.client import Arena

MODEL = "round"


class Calls:
    """Inference over one channel, always of the same input."""

    def __init__(self, client: triton.InferenceServerClient, tensor: Any) -> None:
        self._client = client
        self._inputs = [triton.InferInput("X", list(tensor.shape), "FP32")]
        self._inputs[0].set_data_from_numpy(tensor)
        self._answers: SimpleQueue[tuple[int, Any, Any]] = SimpleQueue()

    def __call__(self) -> Any:
        return self._client.infer(MODEL, self._inputs).as_numpy("Y")

    def begin(self, place: int) -> None:
        self._client.async_infer(MODEL, self._inputs, partial(self._answered, place))

    def finish(self) -> int:
        """The place of the next call that is over."""
        place, result, error = self._answers.get()
        if error is not None:
            raise error
        result.as_numpy("Y")
        return place

    def _answered(self, place: int, result: Any, error: Any) -> None:
        self._answers.put((place, result, error))


def main() -> None:
    port, nbytes, streams, warm_up = map(int, sys.argv[1:])
    tensor = Arena(nbytes).tensor(nbytes)
    with triton.InferenceServerClient(f"127.0.0.1:{port}") as client:
        answer(Calls(client, tensor), tensor, streams, warm_up)


if __name__ == "__main__":
    main()
