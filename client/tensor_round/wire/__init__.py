"""What travels: bytes in, values out, and back. No I/O, no framework.

``strictjson``   JSON that refuses what other parsers let through
``census``       what a JSON text would make, and in how much memory, before it is parsed
``jsontensor``   tensors as JSON numbers, to the last bit; its parts are ``nesting``,
                 ``decimals`` (which rounds, once) and ``integers``
``npy``          .npy headers, read strictly and written as NumPy writes them
``native``       the HTTP headers of ``/round``
``oip``          inference requests of ``/v2`` as values; ``oip_request`` reads them,
                 ``oip_answer`` writes what answers them
``accept``       the coding of an answer that its receiver likes best
"""
