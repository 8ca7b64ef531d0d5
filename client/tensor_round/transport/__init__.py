"""The transport of requests and responses. Each layer uses the next ones only.

``httpx2_transport``  an adapter for any transport of httpx2
``local_transport``   the service's engine in this process, without a network
``blocking``, ``asynchronous``  parallel work, pools of connections, and streams of bytes: in
                      threads and on sockets, or in tasks of asyncio
``http``              the client's own transport: HTTP/1.1 on streams
``exchange``          requests as values, readers of their responses, the deadline of a call
``concurrency``, ``address``  the types of work and of transports; URLs and host names

All layers are coroutines. In the synchronous client no coroutine ever suspends: its pools, streams
and threads block instead, so :func:`.blocking.run` finishes each in one step.
"""
