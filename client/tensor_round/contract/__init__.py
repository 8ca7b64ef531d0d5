"""What client, service and verification agree on. It needs none of them.

``dtypes``, ``rounding``, ``layout`` and ``call`` are the terms; ``operators`` the dialects, which
resolve to a call; ``errors`` every error, also as a problem document; ``wire`` the formats that
both sides write and read; ``differences`` the document of ``/compare`` and how it is counted;
``digests`` the published results. ``array_forms`` reads callers' arrays, and ``host_memory`` views
them; ``progress`` has bars and callbacks, ``quoting`` values in messages, ``version`` the version.
"""
