"""The OpenAPI document: FastAPI's document, completed with the tensor routes and all refusals.

It is made for client generators: each operation has a short, unique id, a header is a string, no
member has a default (generators treat such a member as required), no enumeration has several
types, and every array states the type of its items. tests/service/openapi/test_document.py checks
these rules.
"""
