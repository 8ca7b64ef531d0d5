"""Settings from the command line and the environment."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from importlib.metadata import version
from inspect import cleandoc

from pydantic import ValidationError
from pydantic_settings import CliApp, CliSettingsSource

from ..settings import PREFIX, Settings

PROGRAM = "tensor-round-service"
#: Variables of the client, which may be in the same environment.
CLIENT_VARIABLES = ("URL", "API_KEY")
#: Variables that Kubernetes sets in every container for a Service named tensor-round.
_OF_KUBERNETES = re.compile(r"(.*_)?SERVICE_(HOST|PORT)(_.*)?|(.*_)?PORT_\d+_(TCP|UDP|SCTP)(_.*)?")


def read_settings(arguments: Sequence[str]) -> Settings:
    """Read settings from the command line and the environment.

    Raises :class:`SystemExit` for ``--help``, ``--version``, and with one line for each fault.
    """
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description=cleandoc(Settings.__doc__ or ""),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--version", action="version", version=f"%(prog)s {version('tensor-round')}"
    )
    source: CliSettingsSource[Settings] = CliSettingsSource(Settings, root_parser=parser)
    try:
        return CliApp.run(Settings, cli_args=list(arguments), cli_settings_source=source)
    except ValidationError as error:
        for fault in error.errors():
            name = "_".join(map(str, fault["loc"]))
            both = f"--{name.replace('_', '-')} ({PREFIX}{name.upper()})"
            # pydantic adds a prefix to the messages of ValueErrors.
            rule = fault["msg"].removeprefix("Value error, ").replace("Input should", "must")
            print(f"{PROGRAM}: {both}: {rule}", file=sys.stderr)
        raise SystemExit(2) from None


def unknown_variables(names: Iterable[str]) -> Iterator[str]:
    """A warning for each variable with the prefix of the settings that is none."""
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
