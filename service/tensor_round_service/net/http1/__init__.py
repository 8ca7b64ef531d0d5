"""HTTP/1.1 on an asyncio transport. No module here depends on tensors or on a web framework.

Rules of this package:

1. **Pull.** A connection handles one request at a time. Bytes of later requests stay unparsed,
   and reading pauses while they wait.
2. **llhttp parses heads only**, one complete head at a time. This package counts the bytes of a
   body of known length. :class:`tensor_round.contract.wire.http1.BodyReader`, which the client
   uses too, decodes chunks.
3. **One protocol object for a connection's life**: an :class:`asyncio.BufferedProtocol`. Its
   ``get_buffer`` returns the shared receive buffer or the memory that the route asked to fill.
4. **One state and one deadline.** An illegal state transition raises.
5. **No head is cached.** Routes cache what a request means, keyed by the values that the meaning
   depends on. Credentials are checked on every request and are in no cache.
6. **A route is** ``async def route(request) -> Response``. It runs without a task until it first
   waits.
"""
