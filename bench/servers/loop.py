"""The floor on an event loop: uvloop, received into one reused buffer, no HTTP.

It speaks as ``floor.py`` does. What it takes more than that is the price of an event loop
in Python, which serves many connections; what a service takes more than this, its own.
"""

from __future__ import annotations

import asyncio
import sys

import numpy as np
import uvloop
from floor import LENGTH  # beside this file


class Rounding(asyncio.BufferedProtocol):
    """One connection."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.set_write_buffer_limits(high=0)
        self._tensor = np.empty(0, np.float32)
        self._memory = memoryview(bytearray(LENGTH.size))
        self._filled = 0

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._memory[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        self._filled += nbytes
        if self._filled < len(self._memory):
            return
        self._filled = 0
        if not self._tensor.size:
            self._tensor = np.empty(LENGTH.unpack(self._memory)[0] // 4, np.float32)
            self._memory = self._tensor.data.cast("B")
            return
        np.rint(self._tensor, out=self._tensor)
        self._transport.write(self._memory)


async def main(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(Rounding, "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1])))
