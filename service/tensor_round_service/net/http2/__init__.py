"""HTTP/2 on an asyncio transport. No module here depends on tensors, on gRPC or on a framework.

Rules of this package:

1. **Bytes in, events out.** :class:`.session.Session` is pure state: it reads no socket and no
   clock but the one it is given. :class:`.connection.Connection` is the one protocol object.
2. **A window is an admission.** Of a stream, and of all streams of a connection together, 68 KiB
   may come that nobody has asked for. More may come only when a handler gives the memory.
3. **DATA goes from the socket into that memory**, and responses are sent from where they lie.
4. **Every frame that brings nothing is paid for**: a peer has an allowance of them.
5. **A stream keeps its place until its handler has ended**, also if the peer has reset it.
6. **A few streams are opened in one turn of the event loop**, on all connections together. The
   others wait as bytes, most of them in the system's buffers.
"""
