"""Every operator: what it accepts and refuses, in JSON, as an object and as one word.

The data are in ``support/cases/dialects/``, by dialect. What holds for all of them follows:
examples, faults of form, the cache, catalog and schema.
"""

from __future__ import annotations

import contextlib
import copy
import json
import pickle
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields
from functools import reduce
from itertools import product
from operator import attrgetter, getitem
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, cast, get_args, get_origin, get_type_hints

import numpy as np
import pytest

import tensor_round as tr
from support.cases import descriptors
from support.cases.descriptors import CASES, EXAMPLES, faults, paths, resolved, varied
from support.cases.dialect import ABSENT, Broken, Changes, Document, OperatorCases, Whole
from support.cases.every import grouped
from tensor_round.clients.execution import read_descriptor
from tensor_round.contract.dtypes import BY_NAME
from tensor_round.contract.operators import registry
from tensor_round.contract.operators.dialect import Operator
from tensor_round.contract.operators.model import OneOf
from tensor_round.contract.operators.operator import Kind, as_operator
from tensor_round.contract.operators.registry import (
    DIALECTS,
    OPERATORS,
    SPELLINGS,
    catalog,
    operator_from_text,
    operator_of,
    validate,
)
from tensor_round.contract.rounding import Rounding

each_operator = pytest.mark.parametrize("operator", CASES)


def each(kind: Callable[[OperatorCases], Iterable[Sequence[Any]]]) -> Any:
    """A test an operator, of all its cases of one kind."""
    return grouped({key: [(key, case) for case in kind(cases)] for key, cases in CASES.items()})


def documents(operator: str, changes: Changes) -> Iterator[Any]:
    for some in changes if isinstance(changes, list) else [changes]:
        yield varied(operator, some)


def test_every_operator_has_cases_and_every_file_is_a_dialect_s() -> None:
    assert [*CASES] == [*OPERATORS]
    folder = Path(descriptors.__file__).parent / "dialects"
    files = {file.stem.partition("_")[0] for file in folder.glob("*.py")}
    assert files == {name.partition("_")[0] for name in DIALECTS}


@each_operator
def test_the_tables_are_the_specification_s(operator: str) -> None:
    cases, row = CASES[operator], OPERATORS[operator]
    assert operator in (row.dialect, f"{row.dialect}:{row.name}")
    forms = [EXAMPLES[key] for key, one in OPERATORS.items() if one.descriptor is row.descriptor]
    assert row.descriptor.example == forms[0]
    assert cases.example in forms
    assert (row.dtypes, row.modes) == (cases.dtypes, cases.modes)
    assert row.unsigned_dtypes == cases.unsigned
    types = {n for v in row.versions for n in (*v.dtypes, *v.scales, *v.results)}
    assert types == row.dtypes.keys()
    assert row.kind is cases.kind
    assert row.rounds_to_integral == cases.rounds_to_integral


@each_operator
def test_each_dtype_and_mode_is_accepted_as_the_table_has_it(operator: str) -> None:
    cases = CASES[operator]
    modes = cases.modes if cases.mode_at else {"": cases.rounding}
    for name, mode in product(cases.dtypes, modes) if cases.dtype_at else ():
        changes = {**dict.fromkeys(cases.dtype_at, name), cases.mode_at: mode}
        call = resolved(varied(operator, {at: value for at, value in changes.items() if at}))
        assert (call.input.dtype.name, call.rounding) == (cases.dtypes[name], modes[mode])
        assert call.is_in_place


@each(lambda cases: cases.accepted)
def test_accepted_descriptor_resolves_to_its_call(operator: str, case: Any) -> None:
    changes, expected = case
    for document in documents(operator, changes):
        call = resolved(document)
        if expected is None:
            assert call == resolved(varied(operator, {}))
            continue
        for path, value in expected.items():
            assert attrgetter(path)(call) == (value(call) if callable(value) else value), path


def refusals(cases: OperatorCases) -> Iterator[Broken]:
    for place, value, part in cases.refusals:
        field = place.partition("[")[0]
        yield {field: value}, {place.replace("[", ".").rstrip("]"): part}
    yield from cases.broken


@each(refusals)
def test_broken_rule_is_refused_with_its_place_and_reason(operator: str, case: Any) -> None:
    changes, expected = case
    for document in documents(operator, changes):
        found = faults(document)
        assert found.keys() == expected.keys()
        for path, part in expected.items():
            assert found[path] == part if isinstance(part, Whole) else part in found[path]
            assert len(found[path]) < 300


@each_operator
def test_the_published_example_is_made_in_python(operator: str) -> None:
    read = registry.validate(CASES[operator].example)
    made = type(read)(**dict(read))
    assert made == read
    assert made.resolve() == read.resolve()
    assert registry.parse(made.to_json()) == made
    sent = json.loads(made.to_json())
    assert next(iter(sent)) == "dialect"
    assert json.loads(read.to_json()).keys() == CASES[operator].example.keys()


@each_operator
def test_descriptors_and_operators_are_values(operator: str) -> None:
    made, (value, _) = registry.validate(CASES[operator].example), CASES[operator].operator
    for copied in (copy.copy, copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))):
        assert copied(made) == made
        assert copied(made).to_json() == made.to_json()
        assert copied(value) == value
        assert hash((copied(made), copied(value))) == hash((made, value))
    others = [cases.example for key, cases in CASES.items() if key != operator]
    assert made not in map(registry.validate, others)


@each_operator
def test_an_operator_makes_the_published_example(operator: str) -> None:
    made, (value, dtype) = registry.validate(CASES[operator].example), CASES[operator].operator
    make: Any = value
    parameters = CASES[operator].parameters
    assert make.descriptor(dtype, [2, 3], *parameters) == made
    hashable = [(name, tuple(shape)) for name, shape in parameters]
    prepared = make.prepare(made.resolve().input.dtype.name, (2, 3), *hashable)
    assert registry.parse(prepared.descriptor) == made
    assert prepared.call == made.resolve()
    assert make.prepare(made.resolve().input.dtype.name, (2, 3), *hashable) is prepared
    assert operator_of(made) == value
    assert type(value) is OPERATORS[operator].object


@each_operator
def test_the_default_is_that_of_the_table(operator: str) -> None:
    row, cases = OPERATORS[operator], CASES[operator]
    assert row.default_rounding is cases.rounding
    if cases.rounds_to_integral:
        assert row.object().prepare("float32", (1,)).call.rounding is cases.rounding


@each_operator
def test_a_cast_is_to_exactly_its_types(operator: str) -> None:
    make: Any = OPERATORS[operator].object
    cases = CASES[operator]
    own = {*cases.dtypes.values(), *cases.unsigned.values()}
    for dtype in BY_NAME.values() if cases.to else ():
        for target in (dtype.name, dtype.numpy, dtype.numpy.type):
            if dtype.name in own:
                assert make(target) == make(to=dtype.name)
                assert make(target).to == dtype.name
            else:
                with pytest.raises(tr.InvalidDescriptor, match=f"got .?{dtype.name}.?; .* takes "):
                    make(target)


def refuses(make: Callable[[], object], place: str, why: str) -> None:
    with pytest.raises(tr.InvalidDescriptor, match=why) as caught:
        make()
    assert ".".join(map(str, caught.value.faults[0].loc)) == place
    assert (caught.value.status, caught.value.code) == (422, "invalid_descriptor")


@each(lambda cases: cases.refused)
def test_an_object_refuses_with_where_and_why(operator: str, case: Any) -> None:
    refuses(*case)


#: Called as by someone whom no type checker stops.
ANY_OPERATOR: Any = as_operator


@pytest.mark.parametrize(
    ("given", "place", "why"),
    [("round", "operator", 'got "round"'), (7, "rounding", "got 7")],
)
def test_invalid_operator_is_refused(given: Any, place: str, why: str) -> None:
    refuses(lambda: ANY_OPERATOR(given), place, why)


def test_an_operator_is_given_by_its_direction_or_as_itself() -> None:
    for rounding in tr.Rounding:
        for operator in (as_operator(rounding), as_operator(None, rounding)):
            assert operator == tr.IEEE754Round(rounding)
        assert as_operator(operator) is operator
    assert as_operator(None) == tr.IEEE754Round()
    with pytest.raises(tr.InvalidArgumentType, match=r"^OnnxRound is a class: pass OnnxRound\(\)$"):
        as_operator(cast(Any, tr.OnnxRound))
    with pytest.raises(tr.InvalidArgument, match="one of the two"):
        as_operator("toward_zero", "toward_zero")


def test_sizes_may_be_any_sequence_and_do_not_change() -> None:
    sizes = [2, 3]
    tensor = tr.BufferTensorDesc(DataType=1, Sizes=sizes, Strides=(3, 1))
    sizes.append(4)
    assert (tensor.Sizes, tensor.Strides, tensor.DataType) == ((2, 3), (3, 1), "FLOAT32")


@pytest.mark.parametrize(
    ("dtype", "shape", "which"),
    [
        *((dtype, (2,), "dtype") for dtype in (object(), [1])),
        *(("f4", shape, "shape") for shape in (2, "23", [1.5])),
    ],
)
def test_invalid_tensor_is_an_invalid_argument(dtype: Any, shape: Any, which: str) -> None:
    with pytest.raises(tr.InvalidArgument, match=f"{which} must be"):
        tr.OnnxRound().descriptor(dtype, shape)


@each(lambda cases: cases.words.items())
def test_an_operator_in_one_word(operator: str, case: tuple[str, tr.RoundOperator]) -> None:
    text, expected = case
    cases = CASES[operator]
    assert operator_from_text(text, to=cases.to, kind=cases.kind) == expected


def told_of(text: str, to: str | None = None, kind: Kind | None = None) -> str:
    with pytest.raises(tr.InvalidDescriptor) as caught:
        operator_from_text(text, ("query", "operator"), to, kind=kind)
    (fault,) = caught.value.faults
    assert fault.loc == ("query", "operator")
    assert len(fault.msg) < 700
    return fault.msg


@each(lambda cases: cases.wrong_words.items())
def test_a_wrong_word_is_refused_with_why(operator: str, case: tuple[str, str]) -> None:
    text, why = case
    assert why in told_of(text, CASES[operator].to, CASES[operator].kind)


@pytest.mark.parametrize("kind", Kind)
def test_all_words_are_listed_by_dialect(kind: Kind) -> None:
    spelled: dict[str, list[str]] = {}
    for key, cases in CASES.items():
        if cases.kind is kind:
            spelled.setdefault(OPERATORS[key].dialect, []).append(cases.spelling)
    assert SPELLINGS[kind] == tuple(map(" or ".join, spelled.values()))


def test_unknown_word_lists_the_accepted_ones() -> None:
    accepted = f"{', '.join(Rounding)}, onnx, openvino, directml:MODE, webnn, stablehlo:OP, "
    accepted += "array_api:OP, mlir:OP"
    casts = f"{', '.join(Rounding)}, onnx:Cast, openvino:Convert, directml:CAST, webnn:cast, "
    casts += "stablehlo:convert, array_api:astype, mlir"
    assert told_of("up", "int8") == f'got "up"; did you mean toward_positive? Accepted: {casts}'
    assert told_of("up") == f'got "up"; did you mean toward_positive? Accepted: {accepted}'
    assert told_of("onx") == f'got "onx"; did you mean onnx? Accepted: {accepted}'
    assert told_of("") == f'got ""; accepted: {accepted}'
    assert len(told_of("x" * 10_000)) < 300


#: Attributes that take any integer or truth value.
UNLISTED = {"saturate", "axis", "block_size"}


@each_operator
def test_each_attribute_takes_exactly_its_literal(operator: str) -> None:
    """The names that type checkers know are those that the dialect has."""
    row = OPERATORS[operator]
    hints, required = get_type_hints(row.object), row.object.required()
    positional = {one.name for one in fields(cast(Any, row.object)) if not one.kw_only}
    for attribute in positional.difference(required, ("to", "precision")):
        literals = set(_literals(hints[attribute]))
        assert bool(literals) != (attribute in UNLISTED)
        taken = {
            getattr(_made(row, **{attribute: _of_numpy(value)}), attribute) for value in literals
        }
        assert taken <= literals
        for other in () if attribute in ("axis", "block_size") else {"", "x", -1, 98} - literals:
            with pytest.raises(tr.InvalidDescriptor):
                _made(row, **{attribute: other})
        assert set(_spellings(row.descriptor, attribute)) <= literals
        for version in row.versions:
            assert attribute not in version.attributes or literals.issuperset(version.selected_by)


@each_operator
def test_numbers_of_numpy_are_taken_as_python_s(operator: str) -> None:
    example, (value, _) = CASES[operator].example, CASES[operator].operator
    numbers, plain = (read_descriptor(one)[0] for one in (_of_numpy(example), example))
    assert numbers.to_json() == plain.to_json()
    attributes = {name: getattr(value, name) for name in value.attributes()}
    made = type(value)(**_of_numpy(attributes))
    assert (made, repr(made)) == (value, repr(value))


def _of_numpy(value: Any) -> Any:
    """A document whose numbers and truth values are NumPy's."""
    if isinstance(value, dict):
        return {name: _of_numpy(one) for name, one in value.items()}
    if isinstance(value, list):
        return [*map(_of_numpy, value)]
    return np.array(value)[()] if isinstance(value, int) else value


def _made(row: Operator, **attribute: Any) -> tr.RoundOperator:
    """The object with an attribute; that of a cast to the first type that goes with it."""
    is_cast = row.kind is Kind.CAST
    *targets, last = [{"to": to} for to in ("float32", "int8", "uint8")] if is_cast else [{}]
    for target in targets:
        with contextlib.suppress(tr.InvalidDescriptor):
            return row.object(**target, **attribute)
    return row.object(**last, **attribute)


def _literals(hint: Any) -> Iterator[Any]:
    if get_origin(hint) is Literal:
        yield from get_args(hint)
    elif get_origin(hint) in (Union, UnionType):
        for part in get_args(hint):
            yield from _literals(part)


def _spellings(model: Any, attribute: str) -> Iterable[Any]:
    """What the field of an attribute takes, if it is an enumeration; it has the same name."""
    for name, one in model.model_fields.items():
        if name.replace("_", "").lower() == attribute.replace("_", ""):
            return [s for each in one.metadata if isinstance(each, OneOf) for s in each.spellings]
        for part in (one.annotation, *get_args(one.annotation)):
            if hasattr(part, "model_fields") and (found := _spellings(part, attribute)):
                return found
    return []


def values(document: Document) -> list[tuple[str, Any]]:
    """Each field's dotted path and value."""
    return [(path, reduce(getitem, path.split("."), document)) for path in paths(document)]


@each_operator
def test_no_field_is_converted(operator: str) -> None:
    """Every value of an example replaced by what a lax reader would take for it."""
    for path, value in values(EXAMPLES[operator]):
        if isinstance(value, list):
            assert faults(varied(operator, {path: [*map(str, value)]})), path
        elif isinstance(value, int | str):
            assert faults(
                varied(operator, {path: [value] if isinstance(value, str) else str(value)})
            )


@each_operator
def test_each_field_is_required_or_has_a_default(operator: str) -> None:
    # Without the field that names the operator, a document is the dialect's first one's.
    told = {"dialect", DIALECTS[OPERATORS[operator].dialect].operator_field}
    for path in set(paths(EXAMPLES[operator])) - told:
        document = varied(operator, {path: ABSENT})
        if path not in CASES[operator].defaulted:
            assert faults(document) == {path: "is required"}
        elif CASES[operator].kind.is_linear and path not in ("axis", "block_size"):
            assert resolved(document).input == resolved(EXAMPLES[operator]).input
        elif path not in ("rounding", CASES[operator].mode_at):
            assert resolved(document) == resolved(EXAMPLES[operator])
        else:
            assert resolved(document).rounding == "ties_to_even"


@each_operator
def test_an_unknown_field_is_refused_at_every_level(operator: str) -> None:
    inner = [f"{path}." for path, value in values(EXAMPLES[operator]) if isinstance(value, dict)]
    for path in ("", *inner):
        unknown = f"{path}surprise"
        assert faults(varied(operator, {unknown: 1})) == {unknown: "unknown field"}


def test_the_page_shows_the_examples_and_names_their_optional_fields() -> None:
    page = (Path(__file__).parents[4] / "docs/descriptors.md").read_text()
    short, *shown = map(json.loads, re.findall(r"```json\n(.*?)```", page, re.S))
    assert validate(short)
    # The operators to integral values of a dialect differ in their names.
    assert shown == [
        form.example
        for name, row in DIALECTS.items()
        for form in row.forms
        if form is row.forms[0] or not row.operator_of(form.read(form.example)).rounds_to_integral
    ]
    for name in DIALECTS:
        section = page.partition(f"## `{name}`")[2].partition("\n## ")[0]
        optional = re.findall(r"Optional: (`[\w.]+`(?:, `[\w.]+`)*)", section)
        keys = [key for key in CASES if key.partition(":")[0] == name]
        defaulted = {field for key in keys for field in CASES[key].defaulted}
        assert {*re.findall(r"`([\w.]+)`", " ".join(optional))} == defaulted


@each_operator
def test_every_version_in_the_catalog_is_accepted_by_its_field(operator: str) -> None:
    described = json.loads(json.dumps(catalog()))
    assert tuple(described) == tuple(DIALECTS)
    row = OPERATORS[operator]
    (told,) = (one for one in described[row.dialect]["operators"] if one["operator"] == row.name)
    for version in told["versions"]:
        for value in version["selected_by"]:
            changes = CASES[operator].in_every_version
            document = varied(operator, {told["version_field"]: value, **changes})
            if version["min_rank"] > 2:
                for tensor in ("InputTensor", "OutputTensor"):
                    document["desc"][tensor]["Sizes"] = [1, 1, 2, 3]
            assert resolved(document).input.element_count == 6


def test_the_opsets_of_onnx_are_those_of_its_operators() -> None:
    found = {
        one["operator"]: [version["selected_by"][0] for version in one["versions"]]
        for one in catalog()["onnx"]["operators"]
    }
    assert found == {
        "Round": [11, 22],
        "Floor": [6, 13],
        "Ceil": [6, 13],
        "Cast": [9, 13, 19, 21, 23, 24, 25],
        "QuantizeLinear": [10, 13, 19, 21, 23, 24, 25],
        "DequantizeLinear": [10, 13, 19, 21, 23, 24, 25],
    }
