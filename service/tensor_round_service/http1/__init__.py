"""HTTP/1.1 on a transport. It knows no tensor and no framework.

Rules of this package:

1. **Pull.** A connection has one request at a time. Bytes behind it stay bytes, and reading
   pauses while they have to wait.
2. **llhttp parses heads only**, one whole head at a time. Lengths are counted here, and chunks
   are read by :class:`tensor_round.wire.http1.BodyReader`, the client's own reader.
3. **One protocol object for a connection's life**: an :class:`asyncio.BufferedProtocol`. Its
   ``get_buffer`` returns the receive buffer or the request's own memory.
4. **One state and one deadline.** An illegal move between states raises.
5. **No head is remembered.** Routes remember what a request means, by the values it depends on.
   Credentials are looked at on every request and are in no cache.
6. **A route is** ``async def route(request) -> Response``. It runs to its first wait without a
   task of its own.
"""
