"""The digests of a backend's results for all patterns, beside the published ones."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from typing import cast

import numpy as np

from tensor_round.contract import quantization_digests
from tensor_round.contract.call import Call, Parameters
from tensor_round.contract.cast_digests import FUNCTIONS, TypePair
from tensor_round.contract.digests import DIGESTS
from tensor_round.contract.dtypes import BY_NAME, DType
from tensor_round.contract.errors import BackendFailed, InvalidDescriptor
from tensor_round.contract.functions import RoundToIntegral
from tensor_round.contract.host_memory import pack
from tensor_round.contract.layout import Layout
from tensor_round.contract.quantization_digests import (
    MEMBERS,
    POINT,
    PUBLISHED,
    published,
    scales_of,
)
from tensor_round.contract.quoting import not_accepted
from tensor_round.contract.rounding import Rounding

from ..backends import Backend, Bytes, Round
from ..service_types import Conformance, PatternDigest

#: The operators that have digests, and the parameters that choose among them.
OPERATORS, PARAMETERS = ("round", *PUBLISHED), ("operator", "dtype", "to")
#: Digests by the name of an arithmetic, an operand's type, and a direction or a target type.
Tables = dict[str, dict[str, dict[str, PatternDigest]]]


def digest(round_: Round, dtype_name: str, rounding: Rounding) -> str:
    """SHA-256 of the results for all bit patterns of a type, in ascending order."""
    dtype = BY_NAME[dtype_name]
    call = Call.packed_output(RoundToIntegral(rounding), Layout.of(dtype, (1 << dtype.width,)))
    patterns = _every_pattern(dtype)
    round_(call, patterns, patterns)
    return hashlib.sha256(patterns.data).hexdigest()


def cast_digest(round_: Round, source_name: str, target_name: str) -> str:
    """SHA-256 of the results of all :data:`FUNCTIONS`, one behind the other, likewise."""
    source, target, found = BY_NAME[source_name], BY_NAME[target_name], hashlib.sha256()
    layout, patterns = Layout.of(source, (1 << source.width,)), _every_pattern(source)
    for function in FUNCTIONS:
        call = Call.packed_output(function, layout, target)
        results = np.empty(call.output.byte_length, np.uint8)
        round_(call, patterns, results)
        found.update(results.data)
    return found.hexdigest()


def quantization_digest(round_: Round, operator: str, source_name: str, target_name: str) -> str:
    """SHA-256 of the results of all functions and scales of the operator, likewise."""
    source, target, found = BY_NAME[source_name], BY_NAME[target_name], hashlib.sha256()
    layout, patterns = Layout.of(source, (1 << source.width,)), _every_pattern(source)
    codes = target if operator == "quantize" else source
    point = np.array([POINT], codes.bits).view(np.uint8)
    for function in quantization_digests.FUNCTIONS[operator]:
        for name, pattern in scales_of(operator):
            scale = Layout.of(BY_NAME[name], (1,))
            own = np.append(patterns, np.array([pattern], scale.dtype.bits).view(np.uint8))
            for payload, dtype in ((own, None), (np.append(own, point), codes)):
                parameters = Parameters.of(layout.shape, scale, dtype)
                result = Layout.of(target, layout.shape)
                call = Call(function, layout, result, layout.byte_length, parameters)
                results = np.empty(result.byte_length, np.uint8)
                round_(call, payload, results)
                found.update(results.data)
    return found.hexdigest()


def _every_pattern(dtype: DType) -> Bytes:
    every = np.arange(1 << dtype.width, dtype=dtype.bits)
    return pack(every) if dtype.is_sub_byte else every.view(np.uint8)


def roundings(backend: Backend) -> Tables:
    """The digests of roundings by every arithmetic; raises :class:`BackendFailed`."""
    return _tables(backend, lambda round_, *key: digest(round_, key[0], Rounding(key[1])), DIGESTS)


def converted(backend: Backend, operator: str, pair: TypePair) -> Tables:
    """The digest of an operator of one pair of types, likewise."""

    def compute(round_: Round, *types: str) -> str:
        if operator == "cast":
            return cast_digest(round_, *types)
        return quantization_digest(round_, operator, *types)

    return _tables(backend, compute, published(operator, *pair))


def _tables(
    backend: Backend,
    compute: Callable[[Round, str, str], str],
    expected: Mapping[tuple[str, str], str],
) -> Tables:
    tables: Tables = {}
    try:
        for name, round_ in backend.arithmetics().items():
            rows = tables[name] = {}
            for (row, column), right in expected.items():
                found = compute(round_, row, column)
                cell: PatternDigest = {"sha256": found, "matches_published": found == right}
                rows.setdefault(row, {})[column] = cell
    except (MemoryError, RuntimeError) as error:
        raise BackendFailed("the backend failed on the test patterns", retry_after=1) from error
    return tables


def pairs_of(query: Mapping[str, str]) -> tuple[str, tuple[TypePair, ...]]:
    """The operator that :data:`PARAMETERS` ask for, and its pairs of types.

    Raises :class:`InvalidDescriptor`.
    """
    operator, asked = query.get("operator", "round"), (query.get("dtype"), query.get("to"))
    if operator not in OPERATORS:
        raise _refusal("operator", not_accepted(operator, OPERATORS))
    for side, given in enumerate(asked):
        if given is not None and operator == "round":
            rule = f"only with operator={', '.join(PUBLISHED)}"
            raise _refusal(PARAMETERS[side + 1], rule)
        names = dict.fromkeys(pair[side] for pair in PUBLISHED.get(operator, ()))
        if given is not None and given not in names:
            raise _refusal(PARAMETERS[side + 1], not_accepted(given, names))
    pairs = tuple(published(operator, *asked)) if operator in PUBLISHED else ()
    if operator == "cast" and not pairs:
        raise _refusal("to", "must differ from dtype: that cast is a copy")
    return operator, pairs


def _refusal(parameter: str, rule: str) -> InvalidDescriptor:
    return InvalidDescriptor.at(("query", parameter), rule)


def report(rounded: Tables, operator: str = "", converted: Iterable[Tables] = ()) -> Conformance:
    """The document: digests of roundings, and of an operator between types if any are given."""
    merged: Tables = {}
    for tables in converted:
        for name, rows in tables.items():
            for source, row in rows.items():
                merged.setdefault(name, {}).setdefault(source, {}).update(row)
    conforms = all(
        cell["matches_published"]
        for tables in (rounded, merged)
        for rows in tables.values()
        for row in rows.values()
        for cell in row.values()
    )
    document: Conformance = {"conforms": conforms, "backends": rounded}
    # A member of a name that is known by now alone.
    return cast(Conformance, {**document, MEMBERS[operator]: merged}) if merged else document
