"""Settings from the command line and the environment."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from importlib.metadata import version
from inspect import cleandoc
from typing import TypeVar

from pydantic import ValidationError
from pydantic_settings import BaseSettings, CliApp, CliSettingsSource

from ..settings import Settings

#: Variables of the client, which may be in the same environment.
CLIENT_VARIABLES = ("URL", "API_KEY")
#: Variables that Kubernetes sets in every container for a Service named tensor-round.
_OF_KUBERNETES = re.compile(r"(.*_)?SERVICE_(HOST|PORT)(_.*)?|(.*_)?PORT_\d+_(TCP|UDP|SCTP)(_.*)?")

Model = TypeVar("Model", bound=BaseSettings)


def read_settings(
    model: type[Model], arguments: Sequence[str], program: str = "tensor-round-service"
) -> Model:
    """Read settings from the command line of a program and the environment.

    Raises :class:`SystemExit` for ``--help``, ``--version``, and with one line for each fault.
    """
    parser = argparse.ArgumentParser(
        prog=program,
        description=cleandoc(model.__doc__ or ""),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--version", action="version", version=f"%(prog)s {version('tensor-round')}"
    )
    source: CliSettingsSource[Model] = CliSettingsSource(model, root_parser=parser)
    try:
        return CliApp.run(model, cli_args=list(arguments), cli_settings_source=source)
    except ValidationError as error:
        prefix = model.model_config.get("env_prefix", "")
        for fault in error.errors():
            name = "_".join(map(str, fault["loc"]))
            both = f"--{name.replace('_', '-')} ({prefix}{name.upper()})"
            # pydantic adds a prefix to the messages of ValueErrors.
            rule = fault["msg"].removeprefix("Value error, ").replace("Input should", "must")
            print(f"{program}: {both}: {rule}", file=sys.stderr)
        raise SystemExit(2) from None


def unknown_variables(names: Iterable[str], model: type[BaseSettings] = Settings) -> Iterator[str]:
    """A warning for each variable with the prefix of ``model`` that is not one of its settings."""
    prefix = model.model_config.get("env_prefix", "")
    settings = [name.upper() for name in model.model_fields]
    known = {*settings, *CLIENT_VARIABLES}
    for name in sorted(names):
        if not name.upper().startswith(prefix):
            continue
        rest = name.upper().removeprefix(prefix)
        if rest in known or _OF_KUBERNETES.fullmatch(rest):
            continue
        # cutoff=0: always name one setting.
        nearest = get_close_matches(rest, settings, n=1, cutoff=0.0)[0]
        yield f"{name} is not a setting and has no effect; the nearest is {prefix}{nearest}"
