"""The transport of requests and responses. Each layer uses the next one only.

``interface``         the protocol of a transport and its responses, as a session uses them
``select``            the transport for a client's URL and options
``http_transport``    the client's own transport: HTTP/1.1 over ``pools`` of connections
``httpx2_transport``  an adapter for any transport of httpx2
``local_transport``   the service's engine in this process, without a network
``several``           the transport of several addresses: balancing, ejection, discovery
``connection``        HTTP/1.1 on a stream: one request at a time
``streams``           byte streams: ``blocking`` on sockets, ``asynchronous`` in asyncio
``concurrency``       waiting and parallel work: ``threads`` or ``tasks``
``address``, ``resolver``, ``tls``, ``deadline``  URLs, host names, certificates, time limits

All layers are coroutines. In the synchronous client no coroutine ever suspends: its pools, streams
and threads block instead, so :func:`.concurrency.run` finishes each in one step.
"""
