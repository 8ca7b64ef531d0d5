"""HTTP on asyncio transports. No module here depends on tensors or on a framework.

``http1`` and ``http2`` each have one protocol object for a connection, on what lies beside them:
limits, the states of a connection, turns on the event loop, bodies and codings, responses.
"""
