"""The tables of a dialect: its names, versions and rules.

Everything else that knows the dialects is derived from these: the reader of descriptors, the
catalog, schemas, operators in one word, the models of ``/v2``, public names, tests and fuzzers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from ..errors import Fault, InvalidDescriptor
from ..quoting import not_accepted
from ..rounding import Rounding
from .model import RANK_LIMIT, enumeration
from .operator import Kind

if TYPE_CHECKING:
    from .model import OperatorDescriptor
    from .operator import RoundOperator


@dataclass(frozen=True, slots=True)
class Version:
    """One version of a dialect's operator, with the dtypes and ranks that it accepts.

    ``title`` begins every message about its rules. ``selected_by`` are the values of the
    descriptor's version field that select this version. ``dtypes`` are the dialect's names.
    ``model_version`` is its name as a version of the model in ``/v2``, and ``attributes`` those
    with which the dialect's object is of this version. ``scales`` and ``results`` are the dtypes of
    the scale and the result of a linear quantization.
    """

    name: str
    title: str
    dtypes: tuple[str, ...]
    selected_by: tuple[str | int, ...] = ()
    min_rank: int = 0
    max_rank: int = RANK_LIMIT
    model_version: str = "1"
    attributes: Mapping[str, Any] = field(default_factory=dict)
    scales: tuple[str, ...] = ()
    results: tuple[str, ...] = ()

    @property
    def takes(self) -> str:
        """The rule on data types, as messages state it."""
        return f"{self.title} takes {', '.join(self.dtypes)}"

    def rank_faults(self, rank: int, loc: tuple[str | int, ...]) -> list[Fault]:
        """The fault of a tensor with too few or too many dimensions, if any."""
        if self.min_rank <= rank <= self.max_rank:
            return []
        exact = self.min_rank == self.max_rank
        takes = f"exactly {self.min_rank}" if exact else f"{self.min_rank} to {self.max_rank}"
        return [Fault(loc, f"{self.title} takes {takes} dimensions, got {rank}")]


def overlap_fault(title: str, loc: tuple[str | int, ...]) -> Fault:
    """The fault of an output whose elements may share bytes."""
    return Fault(
        loc,
        f"{title}: elements of the output must not overlap; they do not if, with dimensions "
        "larger than 1 sorted by stride, each stride exceeds the sum of (size-1)*stride of the "
        "smaller ones",
    )


@dataclass(frozen=True, slots=True)
class Words:
    """The operator as one word: the dialect and the operator, then attributes of its object.

    ``name`` is the operator's word, which may be left out if it is the dialect's first one, and is
    empty if the first attribute tells it, as ``math.floor`` does. ``attributes`` are their names in
    help texts, and ``choices`` lists the values of the first. The first ``required`` of them must
    be given. With ``is_text`` the only one is all that follows, colons included.
    """

    name: str = ""
    attributes: tuple[str, ...] = ()
    choices: str = ""
    required: int = 0
    are_integers: bool = False
    is_text: bool = False

    def accepts(self, given: Sequence[str | int]) -> bool:
        """Whether these can be the attributes, as far as their number and types tell."""
        is_typed = not self.are_integers or all(isinstance(value, int) for value in given)
        return self.required <= len(given) <= len(self.attributes) and is_typed

    def spellings(self, *before: str) -> Iterator[str]:
        """The accepted forms that begin with ``before``, for help and error messages."""
        for count in range(self.required, len(self.attributes) + 1):
            text = ":".join((*before, *self.attributes[:count]))
            yield f"{text} ({self.choices})" if count == 1 and self.choices else text


@dataclass(frozen=True, slots=True)
class ModelNames:
    """A model of the Open Inference Protocol: its name, and those of its tensors and parameter.

    ``mode_parameter`` selects the mode; None if the dialect has no modes. ``parameters`` are the
    further inputs of a linear quantization: the scale, then the zero point.
    """

    name: str
    input: str = "X"
    output: str = "Y"
    mode_parameter: str | None = None
    parameters: tuple[str, ...] = ()


#: What specifications leave open in conversions to integers, and what they give here.
OUT_OF_RANGE = "float to integer, out of range"
FLOAT_TO_INTEGER = {OUT_OF_RANGE: "saturate", "float to integer, NaN": "0"}
#: Likewise in conversions to a float type without NaN, which float4_e2m1fn is.
NAN_TO_FLOAT = {"NaN to a float without it": "the largest number of its sign"}
#: Likewise in linear quantization to integers, and back.
QUANTIZATION = {"NaN": "0, plus the zero point", "quotient": "rounded once to the scale's type"}
DEQUANTIZATION = {"difference and product": "exact, then rounded once"}


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator of a dialect: all that is derived from it elsewhere.

    ``descriptor`` and ``object`` are the operator in JSON and in Python; the object's first
    attribute is the mode, if there are modes, and the target type of any kind that has one.
    ``selected_by`` are the values of the dialect's field for the operator, which tell it from the
    others: by default its name. ``model`` has its names in ``/v2``, and ``words`` its form as one
    word; None if it has none.

    ``version_field`` and ``mode_field`` are the paths of the descriptor's fields that select a
    version and a rounding direction; None where there is no choice. ``dtypes`` and ``modes`` map
    the dialect's names to the canonical ones, and ``unsigned_dtypes`` those of integers whose sign
    the operation tells, where it says unsigned. ``default_rounding`` applies without a mode.
    ``target_field`` is the path of the field with the type of the result; None if it has the
    operand's. ``unspecified`` are values that the specification leaves open, and what they give.
    """

    name: str
    descriptor: type[OperatorDescriptor]
    object: type[RoundOperator]
    model: ModelNames
    words: Words | None
    versions: tuple[Version, ...]
    dtypes: Mapping[str, str]
    selected_by: tuple[str, ...] = ()
    version_field: str | None = None
    mode_field: str | None = None
    modes: Mapping[str, Rounding] = field(default_factory=dict)
    default_rounding: Rounding = Rounding.TIES_TO_EVEN
    target_field: str | None = None
    unsigned_dtypes: Mapping[str, str] = field(default_factory=dict)
    unspecified: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.selected_by:
            object.__setattr__(self, "selected_by", (self.name,))

    @property
    def dialect(self) -> str:
        """The value of the descriptor's field ``dialect``."""
        return str(self.descriptor.model_fields["dialect"].default)

    def dtypes_of(self, version: Version) -> tuple[str, ...]:
        """The canonical names of the dtypes that a version of it accepts."""
        tables = (self.dtypes, self.unsigned_dtypes)
        return tuple(table[name] for table in tables for name in version.dtypes if name in table)

    @property
    def kind(self) -> Kind:
        """What it does to a tensor."""
        return self.object.kind

    @property
    def tensors(self) -> tuple[str, ...]:
        """The names of its operands in ``/v2``, in the order in which a payload has them.

        All but the first one's are also those of the descriptor's fields.
        """
        return (self.model.input, *self.model.parameters)

    @property
    def rounds_to_integral(self) -> bool:
        """Whether a mode at most tells what it does: round to an integral value."""
        needs_more = self.words is not None and self.words.required > bool(self.modes)
        return self.kind is Kind.ROUND and not needs_more

    @property
    def word(self) -> str:
        """The operator in one word, with ``{mode}``, ``{version}`` or an attribute in its place."""
        if self.words is None:
            return "{mode}"
        parts = ["{mode}"] if self.modes else []
        others = self.words.attributes[len(parts) :]
        is_version = self.version_field is not None
        parts += [f"{{{'version' if is_version else name.lower()}}}" for name in others]
        return ":".join((self.dialect, *filter(None, [self.words.name]), *parts))

    def describe(self) -> dict[str, Any]:
        """The operator as ``GET /operators`` shows it, as JSON values."""
        return {
            "operator": self.name,
            "kind": self.kind.value,
            "word": self.word,
            "model": {**asdict(self.model), "parameters": [*self.model.parameters]},
            "version_field": self.version_field,
            "versions": [
                {
                    "name": version.name,
                    "model_version": version.model_version,
                    "selected_by": list(version.selected_by),
                    "dtypes": list(version.dtypes),
                    "min_rank": version.min_rank,
                    "max_rank": version.max_rank,
                    "scales": list(version.scales),
                    "results": list(version.results),
                }
                for version in self.versions
            ],
            "dtypes": dict(self.dtypes),
            "unsigned_dtypes": dict(self.unsigned_dtypes),
            "mode_field": self.mode_field,
            "modes": {name: rounding.value for name, rounding in self.modes.items()},
            "default_rounding": self.default_rounding.value,
            "target_field": self.target_field,
            "open": self.unspecified.get(OUT_OF_RANGE),
            "unspecified": dict(self.unspecified),
        }


@dataclass(frozen=True, slots=True)
class Dialect:
    """A dialect: its operators, of which the first is the one that its name alone means.

    ``title`` is the name that people write. ``operator_field`` is the descriptor's field that tells
    the operator, and ``spellings`` maps what it may have to the operators' ``selected_by``: by
    default to themselves.
    """

    title: str
    operators: tuple[Operator, ...]
    operator_field: str
    spellings: Mapping[str | int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.spellings:
            names = (name for operator in self.operators for name in operator.selected_by)
            object.__setattr__(self, "spellings", enumeration(names))

    @property
    def name(self) -> str:
        """The value of the descriptor's field ``dialect``."""
        return self.operators[0].dialect

    @property
    def forms(self) -> tuple[type[OperatorDescriptor], ...]:
        """The descriptors of the operators, of which several may share one."""
        return tuple(dict.fromkeys(operator.descriptor for operator in self.operators))

    def form_of(self, document: Mapping[str, Any]) -> type[OperatorDescriptor]:
        """The descriptor of the operator that a parsed JSON document of this dialect names.

        Raises :class:`InvalidDescriptor`.
        """
        given = document.get(self.operator_field)
        if given is None:
            return self.operators[0].descriptor
        is_name = isinstance(given, str | int) and not isinstance(given, bool)
        if not is_name or given not in self.spellings:
            names = dict.fromkeys(self.spellings.values())
            rule = f"{self.name}: this dialect takes {', '.join(names)}"
            loc = (self.operator_field,)
            raise InvalidDescriptor.at(loc, not_accepted(given, names, rule))
        return self.operator_named(self.spellings[given]).descriptor

    def read(self, document: Mapping[str, Any]) -> OperatorDescriptor:
        """The descriptor in a parsed JSON document of this dialect.

        Raises :class:`InvalidDescriptor` with every wrong field.
        """
        return self.form_of(document).read(document)

    def operator_of(self, descriptor: OperatorDescriptor) -> Operator:
        """The operator of a descriptor of this dialect."""
        return self.operator_named(str(getattr(descriptor, self.operator_field)))

    def operator_named(self, name: str) -> Operator:
        """The operator that a value of the operator's field selects."""
        return next(one for one in self.operators if name in one.selected_by)

    def example_of(self, operator: Operator) -> dict[str, Any]:
        """A document of an operator: its descriptor's example may be another operator's."""
        example = operator.descriptor.example
        named = self.spellings.get(example.get(self.operator_field, ""))
        if named is None or named in operator.selected_by:
            return example
        return {**example, self.operator_field: operator.selected_by[0]}

    def describe(self) -> dict[str, Any]:
        """The dialect as ``GET /operators`` shows it, as JSON values.

        The fields of the first operator stand beside the list of all.
        """
        operators = [operator.describe() for operator in self.operators]
        return {
            "title": self.title,
            **operators[0],
            "operator_field": self.operator_field,
            "operators": operators,
        }
