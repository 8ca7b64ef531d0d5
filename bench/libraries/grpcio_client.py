"""grpcio's client as a process of its own; see :func:`..measuring.blocks.answer`.

``python -m bench.libraries.grpcio_client PATH BYTES STREAMS WARM_UP``, with one stream.
"""

from __future__ import annotations

import sys

import grpc
import numpy as np

from ..measuring.blocks import answer
from ..measuring.client import Arena
from .grpcio_server import UNLIMITED
from .messages import METHOD, Request, Response


def main() -> None:
    path, (nbytes, streams, warm_up) = sys.argv[1], map(int, sys.argv[2:])
    tensor = Arena(nbytes).tensor(nbytes)
    request = Request(model_name="round", raw_input_contents=[tensor.tobytes()])
    request.inputs.add(name="X", datatype="FP32", shape=[tensor.size])
    with grpc.insecure_channel(f"unix:{path}", UNLIMITED) as channel:
        infer = channel.unary_unary(METHOD, Request.SerializeToString, Response.FromString)

        def call() -> np.ndarray:
            return np.frombuffer(infer(request).raw_output_contents[0], "<f4")

        answer(call, tensor, streams, warm_up)


if __name__ == "__main__":
    main()
