"""``POST /round`` in the OpenAPI document, and what other tensor routes share with it."""

from __future__ import annotations

import json
from functools import reduce
from itertools import groupby
from operator import or_
from typing import TYPE_CHECKING, Annotated, Any, NotRequired

from pydantic import ConfigDict, Discriminator, Field, Tag, WithJsonSchema, with_config
from typing_extensions import TypeAliasType, TypedDict

from tensor_round.contract.dtypes import DTYPES
from tensor_round.contract.errors import REFUSALS
from tensor_round.contract.operators.dialect import Dialect
from tensor_round.contract.operators.model import OperatorDescriptor
from tensor_round.contract.operators.operator import Kind
from tensor_round.contract.operators.registry import DIALECTS, SPELLINGS, WORDS
from tensor_round.contract.rounding import Rounding
from tensor_round.contract.wire import http_fields

from .errors import problem_responses
from .schemas import BINARY, STRING, Schema, parameter, ref

_DESCRIPTOR: Schema = {
    "dialect": "ieee754",
    "rounding": "ties_to_even",
    "input": {"dtype": "float32", "shape": [4]},
}
REQUEST = {"descriptor": _DESCRIPTOR, "data": [0.5, 1.5, -0.3, 2.5]}
#: One of each dialect: the first one in the long form, the others in the short one.
_REQUESTS: Schema = {
    "ieee754": {"value": REQUEST},
    **{
        dialect: {"value": {"operator": next(words), "dtype": "float32", "data": REQUEST["data"]}}
        for dialect, words in groupby(WORDS, lambda word: word.partition(":")[0])
    },
}
_RESPONSE = {"output": {"dtype": "float32", "shape": [4]}, "data": [0.0, 2.0, -0.0, 2.0]}

_NUMBER: list[Schema] = [
    {"type": "number"},
    {"type": "string", "enum": ["NaN", "Infinity", "-Infinity"]},
]
# The inner type would be recursive, which client generators do not support.
_INNER: Schema = {"type": "array", "items": {"anyOf": [*_NUMBER, {"type": "array", "items": {}}]}}
Numbers = Annotated[
    Any,
    WithJsonSchema({"anyOf": [*_NUMBER, _INNER]}),
    Field(
        description="Numbers, nested as the shape or flat; a tensor of rank 0 is one number.",
    ),
]

if TYPE_CHECKING:
    Descriptor = OperatorDescriptor
else:

    def _descriptors_of(dialect: Dialect) -> TypeAliasType:
        """The descriptors of a dialect as one type, by the operator that a document names."""

        def name_of(value: Any) -> str:
            is_read = isinstance(value, OperatorDescriptor)
            return (type(value) if is_read else dialect.form_of(value)).__name__

        forms = [Annotated[form, Tag(form.__name__)] for form in dialect.forms]
        name = dialect.forms[0].__name__.replace("Descriptor", "Operator")
        return TypeAliasType(name, Annotated[reduce(or_, forms), Discriminator(name_of)])

    _BY_DIALECT = reduce(or_, map(_descriptors_of, DIALECTS.values()))
    #: A descriptor of any dialect, as the document has it; the routes read it by the registry.
    Descriptor = TypeAliasType("Descriptor", Annotated[_BY_DIALECT, Field(discriminator="dialect")])


@with_config(ConfigDict(extra="forbid"))
class RoundRequest(TypedDict):
    """An operator and the numbers to round; for a quantization its scales and zero points."""

    descriptor: Descriptor
    data: Numbers
    scale: NotRequired[Numbers]
    zero_point: NotRequired[Numbers]


@with_config(ConfigDict(extra="forbid"))
class ShortRoundRequest(TypedDict):
    """An operator in one word, or by dialect and attributes, and the numbers of a packed tensor.

    The query may have the operator; the shape is by default the data's. `to` is the type of the
    result. Of a quantization, a scale has by default the type of the operand, or of the result if
    it dequantizes, and a zero point that of the quantized numbers.
    """

    operator: NotRequired[str | dict[str, Any]]
    dtype: Annotated[str, Field(json_schema_extra={"enum": [dtype.name for dtype in DTYPES]})]
    shape: NotRequired[list[int]]
    to: NotRequired[str]
    saturate: NotRequired[bool]
    axis: NotRequired[int]
    block_size: NotRequired[int]
    data: Numbers
    scale: NotRequired[Numbers]
    zero_point: NotRequired[Numbers]


class RoundedTensor(TypedDict):
    """Dtype and shape of the output."""

    dtype: str
    shape: list[int]


class RoundResponse(TypedDict):
    """The rounded numbers."""

    output: RoundedTensor
    data: Numbers


#: The types of the components.
TYPES = (RoundRequest, ShortRoundRequest, RoundResponse)
#: All codes except those of unknown paths, wrong methods and internal errors.
_CODES = [code for code, kind in REFUSALS.items() if kind.status not in (404, 405, 500)]

PARAMETERS = [
    parameter(
        http_fields.OPERATOR_DESCRIPTOR,
        "header",
        # With `content` or `contentMediaType`, client generators omit the parameter, and Swagger
        # UI asks for a file.
        {**STRING, "examples": [json.dumps(_DESCRIPTOR)]},
        "With application/octet-stream only: the JSON of a `Descriptor` (see Schemas), such as "
        f"`{json.dumps(_DESCRIPTOR)}`.",
    ),
    parameter(
        "operator",
        "query",
        STRING,
        "With application/x-npy and JSON: the operator as one word; of .npy files ties_to_even by "
        "default. Accepted:\n\n" + "".join(f"- {words}\n" for words in SPELLINGS[Kind.ROUND]),
    ),
    parameter(
        "rounding",
        "query",
        {**STRING, "enum": [r.value for r in Rounding]},
        "With application/x-npy: the rounding, in place of `operator`.",
    ),
    parameter(
        "dtype",
        "query",
        {**STRING, "enum": [d.name for d in DTYPES if not d.is_named_by_npy]},
        "With application/x-npy: the dtype of a file that says V1 or V2.",
    ),
    parameter(
        http_fields.CONTENT_DIGEST,
        "header",
        STRING,
        "RFC 9530: `sha-256=:...:` or `sha-512=:...:` of the body; the service verifies it.",
    ),
    parameter(
        http_fields.WANT_CONTENT_DIGEST,
        "header",
        STRING,
        "RFC 9530: `sha-256=1` or `sha-512=1` requests the digest of the response.",
    ),
]
HEADERS: Schema = {
    http_fields.EXECUTION_BACKEND: {"schema": {**STRING, "enum": ["numpy", "cupy"]}},
    http_fields.SERVER_TIMING: {
        "description": "Milliseconds to receive, queue and execute.",
        "schema": STRING,
    },
    http_fields.REQUEST_ID: {"schema": STRING},
    http_fields.CONTENT_DIGEST: {"schema": STRING},
}
_OUTPUT_DESCRIPTOR: Schema = {
    "description": "octet-stream only: dtype, shape, strides and byte_length, as JSON.",
    "schema": STRING,
}


def round_operation() -> Schema:
    """The OpenAPI operation of ``POST /round``."""
    return tensor_operation(
        "round",
        "Round every element of a tensor",
        "The Content-Type selects one of three representations; the response has the "
        "representation of the request. JSON: operator and numbers are one document. "
        "octet-stream: the header Operator-Descriptor has the operator, and the body is the "
        "tensor's bytes, little-endian. x-npy: the body is a .npy file. Content-Encoding may "
        "be identity, gzip or deflate.\n\n-0.3 rounds to -0.0, as IEEE 754 defines; browsers, "
        "this page too, show it as 0.",
        PARAMETERS,
        {"anyOf": [ref("RoundRequest"), ref("ShortRoundRequest")]},
        {
            "description": "The rounded tensor, in the representation of the request.",
            "headers": {http_fields.OUTPUT_DESCRIPTOR: _OUTPUT_DESCRIPTOR, **HEADERS},
            # Some generators use the first representation for all responses: bytes suit all three.
            "content": {
                http_fields.OCTET_STREAM: BINARY,
                http_fields.JSON: {"schema": ref("RoundResponse"), "example": _RESPONSE},
                http_fields.NPY: BINARY,
            },
        },
    )


def tensor_operation(
    name: str,
    summary: str,
    description: str,
    parameters: list[Schema],
    document: Schema,
    success: Schema,
) -> Schema:
    """The operation of a route that takes a tensor in three representations."""
    content: dict[str, Any] = {
        http_fields.JSON: {"schema": document, "examples": _REQUESTS},
        http_fields.OCTET_STREAM: BINARY,
        http_fields.NPY: BINARY,
    }
    return {
        "tags": ["round"],
        "operationId": name,
        "summary": summary,
        "description": description,
        "parameters": parameters,
        "requestBody": {"required": True, "content": content},
        "responses": {"200": success, **problem_responses(_CODES)},
    }
