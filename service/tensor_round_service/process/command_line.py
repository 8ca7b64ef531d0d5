"""What the service is told at its start: options, and variables of the environment."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from importlib.metadata import version
from inspect import cleandoc

from pydantic_settings import CliApp, CliSettingsSource

from ..settings import PREFIX, Settings

#: The client's, which may stand in the same environment.
CLIENT_VARIABLES = ("URL", "API_KEY")
#: What Kubernetes gives every container, by the name of a Service: tensor-round's begin so too.
_OF_KUBERNETES = re.compile(r"(.*_)?SERVICE_(HOST|PORT)(_.*)?|(.*_)?PORT_\d+_(TCP|UDP|SCTP)(_.*)?")


def read_settings(arguments: Sequence[str]) -> Settings:
    """The settings of a command line and the environment.

    Raises :class:`pydantic.ValidationError`, and :class:`SystemExit` for ``--help``,
    ``--version`` and unknown options.
    """
    parser = argparse.ArgumentParser(
        prog="tensor-round-service",
        description=cleandoc(Settings.__doc__ or ""),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--version", action="version", version=f"%(prog)s {version('tensor-round')}"
    )
    source: CliSettingsSource[Settings] = CliSettingsSource(Settings, root_parser=parser)
    return CliApp.run(Settings, cli_args=list(arguments), cli_settings_source=source)


def unknown_variables(names: Iterable[str]) -> Iterator[str]:
    """A sentence for each variable that looks like a setting and is none."""
    settings = [name.upper() for name in Settings.model_fields]
    known = {*settings, *CLIENT_VARIABLES}
    for name in sorted(names):
        if not name.upper().startswith(PREFIX):
            continue
        rest = name.upper().removeprefix(PREFIX)
        if rest in known or _OF_KUBERNETES.fullmatch(rest):
            continue
        # A far guess says more than none.
        nearest = get_close_matches(rest, settings, n=1, cutoff=0.0)[0]
        yield f"{name} is no setting and changes nothing; the nearest is {PREFIX}{nearest}"
