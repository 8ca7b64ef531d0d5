"""Inference by grpcio's asyncio server on a Unix socket: ``np.rint`` of the raw tensor.

``python -m bench.libraries.grpcio_server PATH``.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import grpc
import numpy as np

from .messages import METHOD, Request, Response

UNLIMITED = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]


async def infer(request: Any, _context: grpc.aio.ServicerContext[Any, Any]) -> Any:
    (given,), (raw,) = request.inputs, request.raw_input_contents
    rounded = np.rint(np.frombuffer(raw, "<f4"))
    response = Response(model_name=request.model_name, raw_output_contents=[rounded.tobytes()])
    response.outputs.add(name="Y", datatype=given.datatype, shape=given.shape)
    return response


async def main() -> None:
    server = grpc.aio.server(options=UNLIMITED)
    service, _, method = METHOD[1:].partition("/")
    handler = grpc.unary_unary_rpc_method_handler(
        infer, Request.FromString, Response.SerializeToString
    )
    server.add_generic_rpc_handlers(
        [grpc.method_handlers_generic_handler(service, {method: handler})]
    )
    server.add_insecure_port(f"unix:{sys.argv[1]}")
    await server.start()
    await server.wait_for_termination()


if __name__ == "__main__":
    asyncio.run(main())
