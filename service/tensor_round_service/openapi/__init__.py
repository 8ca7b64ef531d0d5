"""The OpenAPI document: FastAPI's own, with what it cannot see written in.

It is written for generators of clients: each operation has a short id of its own, a header is a
string, no member has a default (generators take such a member for required), no enumeration has
several types, and every array says what it is of. tests/service/openapi/test_document.py holds
these rules.
"""
