"""Settings from the command line and the environment."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from importlib.metadata import version
from inspect import cleandoc

from pydantic_settings import CliApp, CliSettingsSource

from ..settings import PREFIX, Settings

#: Variables of the client, which may be in the same environment.
CLIENT_VARIABLES = ("URL", "API_KEY")
#: Variables that Kubernetes sets in every container for a Service named tensor-round.
_OF_KUBERNETES = re.compile(r"(.*_)?SERVICE_(HOST|PORT)(_.*)?|(.*_)?PORT_\d+_(TCP|UDP|SCTP)(_.*)?")


def read_settings(arguments: Sequence[str]) -> Settings:
    """Read the settings from a command line and the environment.

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
    """A warning for each variable with the settings' prefix that is not a setting."""
    settings = [name.upper() for name in Settings.model_fields]
    known = {*settings, *CLIENT_VARIABLES}
    for name in sorted(names):
        if not name.upper().startswith(PREFIX):
            continue
        rest = name.upper().removeprefix(PREFIX)
        if rest in known or _OF_KUBERNETES.fullmatch(rest):
            continue
        # cutoff=0: always name one setting.
        nearest = get_close_matches(rest, settings, n=1, cutoff=0.0)[0]
        yield f"{name} is not a setting and has no effect; the nearest is {PREFIX}{nearest}"
