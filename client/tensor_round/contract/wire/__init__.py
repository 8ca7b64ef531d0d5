"""Wire formats: bytes to values and back. No I/O, no framework.

``strictjson``   JSON, with duplicate keys and other leniencies of parsers refused
``json_size``    the values in a JSON text, and the memory for them, before it is parsed
``jsontensor``   tensors as JSON numbers, exactly; its parts are ``nesting``, ``decimals``
                 (rounds each decimal once) and ``integers``
``npy``          headers of .npy files, parsed strictly and written as NumPy writes them
``native``       the HTTP fields of ``/round``
``oip``          inference requests of ``/v2`` as values; ``oip_request`` parses them,
                 ``oip_response`` writes responses
``accept``       the preferred coding of an Accept-Encoding field
``http1``        heads and bodies of HTTP/1.1 messages
"""
