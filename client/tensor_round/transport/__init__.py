"""How bytes travel: links under a session, transports under links, wires under transports.

A link (``blocking_link``, ``async_link``) is the seam below
:class:`~tensor_round.session.Session`; it speaks to any transport of httpx2's. The
client's own transports keep a pool of ``connection.Connection``, HTTP/1.1 written once
over a ``wires.Wire``, of which there is one on blocking sockets and one on asyncio.

Only ``address`` and ``links`` are imported before there is a client.
"""
