"""What client, service and verification agree on. It needs none of them.

``dtypes``, ``rounding``, ``layout`` and ``call`` are the terms; ``operators`` the dialects, which
resolve to a call; ``errors`` every error, also as a problem document; ``wire`` the formats that
both sides write and read; ``differences`` the document of ``/compare`` and how it is counted;
``digests`` the published results. ``host`` has arrays in a program's memory, ``progress`` bars and
callbacks, ``quoting`` values in messages, ``version`` the version.
"""
