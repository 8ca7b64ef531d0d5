"""The table of specifications: whole, in agreement with the dialects, and told by the CLI."""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from typing import Any

import pytest
from typer.testing import CliRunner

from tensor_round.contract.operators.registry import DIALECTS, OPERATORS
from tensor_round_cli.app import app
from tensor_round_verify.specifications import SILENT, SPECIFICATIONS, Specification, find

IDS = [row.name for row in SPECIFICATIONS]
each_row = pytest.mark.parametrize("row", SPECIFICATIONS, ids=IDS)


def specs(*arguments: str) -> Any:
    done = CliRunner().invoke(app, ["specs", *arguments])
    assert done.exit_code == 0, done.output
    return done.output


@each_row
def test_a_row_says_everything_in_one_line(row: Specification) -> None:
    assert row.name
    assert all((row.zero, row.nan, row.source))
    assert bool(row.dtypes and row.ranks) == (row.ties != "no operator")
    assert not any("\n" in str(value) or "|" in str(value) for value in asdict(row).values())


@each_row
def test_a_row_is_written_as_json_with_all_its_fields(row: Specification) -> None:
    assert Specification(**json.loads(json.dumps(asdict(row)))) == row


@each_row
def test_a_row_is_told_in_sentences_with_all_that_it_has(row: Specification) -> None:
    told = specs(row.name)
    first, *sentences = re.sub(r"\n {4,}", " ", told).splitlines()
    assert first.startswith(f"{row.name} ")
    assert all(sentence.endswith(".") for sentence in (first, *sentences))
    for value in {row.about, row.dtypes, row.zero, row.nan, row.source} - {"silent"}:
        assert value.lower() in " ".join(sentences).lower()
    has_silence = (row.zero, row.nan) == SILENT and row.ties != "no operator"
    assert ("The text is silent on zero's sign and NaN." in told) == has_silence


@each_row
def test_a_dialect_rounds_as_its_row_says(row: Specification) -> None:
    if row.dialect is None:
        return
    operator = OPERATORS[row.dialect]  # the dialect's first one
    assert row.ties not in ("not defined", "no operator")
    directions = {rounding.value for rounding in operator.modes.values()}
    if row.ties == "by mode":
        assert len(directions) > 1
    else:
        assert f"ties_to_{row.ties}" in directions | {operator.default_rounding.value}


def test_names_are_distinct_and_every_dialect_has_a_row() -> None:
    assert len(set(IDS)) == len(IDS)
    assert {row.dialect for row in SPECIFICATIONS} - {None} == DIALECTS.keys()


def test_a_name_is_found_whole_or_by_its_family() -> None:
    assert [row.name for row in find("DirectML.element_wise_round")] == [
        "directml.ELEMENT_WISE_ROUND"
    ]
    assert len(find("stablehlo")) == 3
    assert find("stable") == ()


def test_the_command_tells_all_one_and_json() -> None:
    lines = specs().splitlines()
    assert [line.split()[0] for line in lines] == IDS
    assert "round_nearest_afz rounds halves away from zero.\n" in specs("stablehlo")
    assert json.loads(specs("--json")) == [asdict(row) for row in SPECIFICATIONS]
    assert [row["name"] for row in json.loads(specs("metal", "--json"))] == [
        "metal.round",
        "metal.rint",
    ]


def test_an_unknown_name_is_wrong_usage() -> None:
    done = CliRunner().invoke(app, ["specs", "cuda"])
    assert done.exit_code == 2
    assert "directml" in done.output
