"""``tensor-round operators``, ``conformance``, ``ping``: a service described; ``specs``."""

from __future__ import annotations

import json
import textwrap
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from enum import Enum
from itertools import groupby
from shutil import get_terminal_size
from typing import Annotated, Any

import typer

from tensor_round.contract.digests import DIGESTS, differing
from tensor_round.contract.quantization_digests import MEMBERS, published
from tensor_round.contract.quoting import not_accepted, one_line, printable
from tensor_round.contract.version import __version__
from tensor_round_verify.specifications import SPECIFICATIONS, Specification, Ties, find

from .connecting import AsJson, Connection, connects

#: Round trips of ``ping``.
PINGS = 5
#: The families of operators that ``specs`` lists.
FAMILIES = list(dict.fromkeys(row.name.partition(".")[0] for row in SPECIFICATIONS))
#: What an operator does with halves, by its rule.
_HALVES: dict[Ties, str] = {
    "even": "rounds halves to even",
    "away": "rounds halves away from zero",
    "toward +infinity": "rounds halves toward +infinity",
    "by mode": "rounds halves as its mode says",
    "not defined": "does not define how it rounds halves",
    "no operator": "has no operator that rounds to integral values",
}


@connects
def operators(
    *,
    connection: Connection,
    as_json: AsJson = False,
) -> None:
    """List the service's operators: dialects, versions, data types, modes."""
    with connection.client(as_json) as client:
        catalog = client.operators()
        if as_json:
            typer.echo(json.dumps(catalog))
            return
        catalog = printable(catalog)
        for name, dialect in catalog["dialects"].items():
            for operator in dialect.get("operators", [dialect]):
                typer.echo(f"{name}: {operator['operator']}")
                for line in _described(operator):
                    typer.echo(_wrapped(line))
        typer.echo(f"at most {catalog['limits']['max_tensor_bytes']} bytes a tensor")


class Proved(str, Enum):
    """The operators whose digests a service has."""

    ROUND = "round"
    CAST = "cast"
    QUANTIZE = "quantize"
    DEQUANTIZE = "dequantize"


@connects
def conformance(
    *,
    operator: Annotated[
        Proved, typer.Option(help="Any but round is added, which the service computes in seconds.")
    ] = Proved.ROUND,
    dtype: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Casts and quantization from this type alone."),
    ] = None,
    to: Annotated[
        str | None, typer.Option(metavar="NAME", help="Casts and quantization to this type alone.")
    ] = None,
    connection: Connection,
    as_json: AsJson = False,
) -> None:
    """Compare the digests of the service's results with the published ones.

    The exit code is 1 if any differs.
    """
    with connection.client(as_json) as client:
        asked: dict[str, Any] = {"dtype": dtype, "to": to}
        proof = client.conformance(operator.value, **asked)
        expected = {"backends": DIGESTS}
        if operator is not Proved.ROUND:
            expected[MEMBERS[operator.value]] = published(operator.value, dtype, to)
        wrong = [
            (one_line(backend), member, digests, differing(rows, digests))
            for member, digests in expected.items()
            for backend, rows in proof.get(member, {}).items()
        ]
        has_all = all(proof.get(member) for member in expected)
        conforms = has_all and not any(names for *_, names in wrong)
        if as_json:
            typer.echo(json.dumps({**proof, "matches_this_package": conforms}))
        else:
            for each in wrong:
                typer.echo(_wrapped(_summary(*each)))
            verdict = "conforms to" if conforms else "does NOT conform to"
            typer.echo(f"The service {verdict} the digests of tensor-round {__version__}.")
        if not conforms:
            raise typer.Exit(1)


@connects
def ping(
    *,
    connection: Connection,
    as_json: AsJson = False,
) -> None:
    """Check that the service is ready, and measure the round trip."""
    with connection.client(as_json) as client:
        client.operators()  # raises the error where ready() would return False
        ready, durations = False, []
        for _ in range(PINGS):
            began = time.perf_counter()
            ready = client.ready()
            durations.append((time.perf_counter() - began) * 1e3)
        fastest = round(min(durations), 3)
        if as_json:
            typer.echo(json.dumps({"url": connection.url, "ready": ready, "milliseconds": fastest}))
        else:
            typer.echo(f"{connection.url} is {'ready' if ready else 'not ready'}, {fastest} ms")
        if not ready:
            raise typer.Exit(1)


def _described(operator: dict[str, Any]) -> Iterator[str]:
    """An operator's versions, grouped by the ranks and dtypes that they accept, and its modes.

    Also what its specification leaves open, if it does.
    """

    def taken(version: dict[str, Any]) -> tuple[int, int, list[str]]:
        return version["min_rank"], version["max_rank"], version["dtypes"]

    for (least, most, dtypes), group in groupby(operator["versions"], taken):
        names = [version["name"] for version in group]
        versions = names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"
        ranks = f"rank {least}" if least == most else f"ranks {least} to {most}"
        yield f"{versions}, {ranks}: {' '.join(dtypes)}"
    default, modes = operator["default_rounding"], operator["modes"]
    if modes:
        named = [f" ({name} by default)" for name, meant in modes.items() if meant == default]
        yield f"modes: {' '.join(modes)}{''.join(named)}"
    else:
        yield f"modes: none, always {default}"
    if unspecified := operator.get("unspecified"):
        yield f"open: {'; '.join(f'{case}: {here}' for case, here in unspecified.items())}"


def _summary(
    backend: str, member: str, published: Mapping[tuple[str, str], str], wrong: list[str]
) -> str:
    digests = f"{len(published)} digests of {'roundings' if published is DIGESTS else member}"
    if wrong:
        return f"{backend}: {len(wrong)} of {digests} differ: {', '.join(wrong)}"
    dtypes = dict.fromkeys(dtype for dtype, _ in published)
    return f"{backend}: all {digests} are as published, of {', '.join(dtypes)}"


def _wrapped(line: str) -> str:
    """The line, indented and wrapped to the terminal's width."""
    return textwrap.fill(
        line,
        get_terminal_size().columns,
        initial_indent="  ",
        subsequent_indent="    ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def specs(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            autocompletion=lambda: [row.name for row in SPECIFICATIONS],
            help="An operator (stablehlo.round_nearest_afz) or all of one family (stablehlo).",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show how each specification rounds halves, or with NAME all that one says."""
    rows = SPECIFICATIONS if name is None else find(name)
    if not rows:
        names = (*FAMILIES, *(row.name for row in SPECIFICATIONS))
        why = not_accepted(name, names, listed=FAMILIES)
        raise typer.BadParameter(why, param_hint="NAME")
    if as_json:
        typer.echo(json.dumps([asdict(row) for row in rows]))
        return
    if name is None:
        width = max(len(row.name) for row in rows)
        for row in rows:
            typer.echo(f"{row.name:<{width}}  {row.ties}")
        return
    for row in rows:
        typer.echo(f"{row.name} {_HALVES[row.ties]}.")
        for sentence in _sentences(row):
            typer.echo(_wrapped(sentence))


def _sentences(row: Specification) -> Iterator[str]:
    """What a specification says of an operator, and what it does not."""
    if row.about:
        yield f"{row.about[0].upper()}{row.about[1:]}."
    if row.dtypes:
        yield f"Types: {row.dtypes}. Ranks: {row.ranks}."
        zero = "" if row.zero == "silent" else f"A zero result {row.zero}."
        nan = "" if row.nan == "silent" else f"NaN becomes {row.nan}."
        yield (" ".join(filter(None, (zero, nan))) or "The text is silent on zero's sign and NaN.")
    yield f"Source: {row.source}."
    if row.dialect:
        yield f"tensor-round has it as the dialect {row.dialect}."
