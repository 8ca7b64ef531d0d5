"""Wire formats: bytes to values and back. No I/O, no framework.

``strictjson``   JSON, with duplicate keys and other leniencies of parsers refused
``json_size``    the values in a JSON text, and the memory for them, before it is parsed
``npy``          headers of .npy files, parsed strictly
``native``       the HTTP fields of ``/round``
``http1``        heads and bodies of HTTP/1.1 messages
"""
