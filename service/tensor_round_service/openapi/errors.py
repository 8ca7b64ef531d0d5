"""Errors in the OpenAPI document: a problem document with an example for each code."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from tensor_round.contract.errors import (
    REFUSALS,
    InvalidDescriptor,
    MethodNotAllowed,
    RequestRefused,
    TensorTooLarge,
    problem,
)
from tensor_round.contract.wire import http_fields

from .schemas import INTEGER, STRING, Schema, ref

#: The detail of an example of each code, with the exact text of the service.
_DETAILS = {
    "missing_descriptor": "the header Operator-Descriptor with the operator as JSON is missing; "
    "GET /operators lists the operators",
    "duplicate_descriptor": "the request has the header Operator-Descriptor 2 times; send it once",
    "malformed_json": "not JSON: Expecting property name enclosed in double quotes (character 1)",
    "payload_size_mismatch": "the payload must have 16 bytes for this descriptor, got 12",
    "malformed_npy": "the body does not begin with the magic bytes of a .npy file",
    "malformed_encoding": "the body ends before its compressed stream does",
    "digest_mismatch": "the body's SHA-256 differs from Content-Digest",
    "invalid_host": "Host: must be a host name or an IP address, and a port if needed, as in "
    'tensors.example:8000, got "a b"',
    "unauthorized": "the request has no API key; "
    "send an API key, as Authorization: Bearer <key> or as X-API-Key: <key>",
    "not_found": "there is nothing at this path",
    "receive_timeout": "the body was received at less than 65536 bytes a second",
    "unsupported_media_type": 'Content-Type: got "text/plain"; accepted: application/octet-stream '
    "with the header Operator-Descriptor, application/json, application/x-npy",
    "unsupported_encoding": 'Content-Encoding must be identity, gzip or deflate, got "br"',
    "misdirected_host": 'this service does not serve the host "evil.example"; '
    "add it to ALLOWED_HOSTS",
    "headers_too_large": "the head has more than 32768 bytes or 100 fields",
    "unimplemented": 'the service does not know the method "FETCH"',
    "internal_error": "the service failed; its log has the details",
}
#: Likewise, for the codes whose refusals have Retry-After.
_RETRIABLE_DETAILS = {
    "overloaded": "the memory budget has no room for this tensor now",
    "draining": "this instance is shutting down; retry on another",
    "device_out_of_memory": "the device is out of memory",
    "backend_failed": "the service failed on this request",
}
_UNKNOWN_ROUNDING = (
    'got "nearest"; ieee754: roundToIntegral takes ties_to_even, ties_to_away, toward_zero, '
    "toward_positive, toward_negative"
)
#: An example of each code.
EXAMPLES: dict[str, RequestRefused] = {
    refusal.code: refusal
    for refusal in (
        *(REFUSALS[code](detail) for code, detail in _DETAILS.items()),
        *(REFUSALS[code](detail, retry_after=1) for code, detail in _RETRIABLE_DETAILS.items()),
        MethodNotAllowed("this path allows POST", allow="POST"),
        TensorTooLarge(
            "the input tensor has 8589934592 bytes, the limit is 1073741824",
            limit_bytes=1 << 30,
            got_bytes=8 << 30,
        ),
        InvalidDescriptor.at(("rounding",), _UNKNOWN_ROUNDING),
    )
}


class ProblemFault(TypedDict):
    """One fault in a request: its path of keys and indices, and the violated rule."""

    loc: list[str | int]
    msg: str


class Problem(TypedDict):
    """A problem document (RFC 9457)."""

    type: Annotated[
        str,
        Field(
            description="A link to the section on the code, relative to the request.",
            json_schema_extra={"format": "uri-reference"},
        ),
    ]
    title: str
    status: int
    detail: str
    code: Annotated[str, Field(json_schema_extra={"enum": [*sorted(REFUSALS)]})]
    errors: NotRequired[
        Annotated[
            list[ProblemFault],
            Field(description="The errors in the request, if the response names them."),
        ]
    ]
    limit_bytes: NotRequired[Annotated[int, Field(description="With tensor_too_large.")]]
    got_bytes: NotRequired[
        Annotated[
            int | None,
            Field(description="With tensor_too_large; null if the client stated no size."),
        ]
    ]


#: The headers of the refusals with a status.
HEADERS: dict[int, Schema] = {
    401: {"WWW-Authenticate": {"description": "How to send a key.", "schema": STRING}},
    415: {
        name: {"description": f"The {what} that the service accepts.", "schema": STRING}
        for name, what in ((http_fields.ACCEPT_ENCODING, "codings"), ("Accept", "media types"))
    },
    503: {
        http_fields.RETRY_AFTER: {
            "description": "Seconds after which the client may retry.",
            "schema": {**INTEGER, "minimum": 1},
        }
    },
}


def problem_responses(codes: Iterable[str]) -> Schema:
    """The responses for these codes: one for each status, with an example of each code."""
    by_status: dict[int, list[RequestRefused]] = {}
    for code in codes:
        by_status.setdefault(EXAMPLES[code].status, []).append(EXAMPLES[code])
    return {str(status): _response(by_status[status]) for status in sorted(by_status)}


def _response(refusals: list[RequestRefused]) -> Schema:
    examples = {r.code: {"summary": r.title, "value": problem(r)} for r in refusals}
    content = {"schema": ref("Problem"), "examples": examples}
    response: Schema = {
        "description": "; ".join(f"`{r.code}`: {r.title}" for r in refusals),
        "content": {http_fields.PROBLEM_JSON: content},
    }
    if headers := HEADERS.get(refusals[0].status):
        response["headers"] = headers
    return response
