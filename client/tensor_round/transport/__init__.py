"""How bytes travel, in layers, each of which knows only the next.

``transports``   what a session sends requests by: the one seam below it
``own``          the client's own transport: a pool of connections, for both clients
``foreign``      any transport of httpx2's in its place
``local``        none: the service's engine in this process
``look_up``      a host's addresses, within the deadline
``connection``   HTTP/1.1, written once, over a wire
``wires``        a stream of bytes: ``blocking_wire`` on sockets, ``async_wire`` in asyncio
``concurrency``  doing several things at once, and waiting: ``threads`` or ``tasks``

All of it is coroutines. In the synchronous client none of them ever waits for an event
loop: pools, wires and threads block where they stand.
"""
