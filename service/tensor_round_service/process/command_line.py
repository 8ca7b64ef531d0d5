"""Settings from the command line and the environment."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from importlib.metadata import entry_points
from inspect import cleandoc
from typing import NoReturn

from pydantic import ValidationError
from pydantic_settings import CliApp, CliSettingsSource

from tensor_round.contract.quoting import not_accepted, shown
from tensor_round.contract.version import __version__

from ..failures import CannotStart
from ..settings import PREFIX, Settings

PROGRAM = "tensor-round-service"
#: Variables of the client, which may be in the same environment.
CLIENT_VARIABLES = ("URL", "API_KEY")
#: Variables that Kubernetes sets in every container for a Service whose name begins with
#: tensor-round, and the values of those whose names end in PORT.
_OF_KUBERNETES = re.compile(r"(.*_)?SERVICE_(HOST|PORT)(_.*)?|(.*_)?PORT_\d+_(TCP|UDP|SCTP)(_.*)?")
_LINK = re.compile(r"(tcp|udp|sctp)://.*")
#: A size as Kubernetes writes it.
_QUANTITY = re.compile(r"(\d+(?:\.\d+)?)([KMGTPE]i)")
#: Messages in place of pydantic's.
_RULES = {
    "int_parsing": "must be an integer",
    "float_parsing": "must be a number",
    "bool_parsing": "must be true or false",
    "byte_size": "must be a number of bytes, as in 512MiB",
    "byte_size_unit": "must be a number of bytes, as in 512MiB",
}


class _Parser(argparse.ArgumentParser):
    """A parser that reports a mistake in a line, with the option that was probably meant."""

    def error(self, message: str) -> NoReturn:
        wrong = re.search(r"unrecognized arguments: (--[^\s=]+)", message)
        options = [f"--{name.replace('_', '-')}" for name in Settings.model_fields]
        meant = get_close_matches(wrong[1], options, n=1) if wrong else []
        hint = f"did you mean {meant[0]}? " if meant else ""
        self.exit(2, f"{PROGRAM}: {message}; {hint}--help lists the options\n")


def read_settings(arguments: Sequence[str]) -> Settings:
    """Read settings from the command line and the environment.

    Raises :class:`SystemExit` for ``--help``, ``--version``, and with one line for each fault.
    """
    parser = _Parser(
        prog=PROGRAM,
        description=cleandoc(Settings.__doc__ or ""),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    source: CliSettingsSource[Settings] = CliSettingsSource(Settings, root_parser=parser)
    try:
        return CliApp.run(Settings, cli_args=list(arguments), cli_settings_source=source)
    except ValidationError as error:
        for fault in error.errors():
            name = "_".join(map(str, fault["loc"]))
            both = f"--{name.replace('_', '-')} ({PREFIX}{name.upper()})"
            # pydantic adds a prefix to the messages of ValueErrors.
            rule = fault["msg"].removeprefix("Value error, ").replace("Input should", "must")
            rule = _RULES.get(fault["type"], rule)
            if fault["type"] != "value_error":
                rule += f", got {shown(fault['input'])}{_hint(fault['input'])}"
            print(f"{PROGRAM}: {both}: {rule}", file=sys.stderr)
        raise SystemExit(2) from None


def _hint(value: object) -> str:
    """What is likely meant by a value that is not accepted; empty if that is not known."""
    text = str(value)
    if size := _QUANTITY.fullmatch(text):
        return f"; did you mean {size[1]}{size[2]}B?"
    if _LINK.fullmatch(text):
        return (
            "; Kubernetes sets this variable for a Service of that name: set enableServiceLinks: "
            "false in the pod, or pass the option"
        )
    return ""


def unknown_variables(environment: Mapping[str, str]) -> Iterator[str]:
    """A warning for each variable with the prefix of the settings that is none."""
    settings = [name.upper() for name in Settings.model_fields]
    known = {*settings, *CLIENT_VARIABLES}
    for name, value in sorted(environment.items()):
        if not name.upper().startswith(PREFIX):
            continue
        rest = name.upper().removeprefix(PREFIX)
        if rest in known or _OF_KUBERNETES.fullmatch(rest) or _LINK.fullmatch(value):
            continue
        # cutoff=0: always name one setting.
        nearest = get_close_matches(rest, settings, n=1, cutoff=0.0)[0]
        yield f"{name} is not a setting and has no effect; the nearest is {PREFIX}{nearest}"


def check_propagators(environ: Mapping[str, str]) -> None:
    """Raise :class:`CannotStart` for a propagator of OTEL_PROPAGATORS that is not installed.

    FastAPI imports OpenTelemetry, which raises an error for it while it is being imported.
    """
    names = environ.get("OTEL_PROPAGATORS")
    installed = entry_points(group="opentelemetry_propagator").names if names else ()
    for name in map(str.strip, (names or "").split(",")) if installed else ():
        if name.lower() == "none":
            return
        if name not in installed:
            rule = not_accepted(name, sorted({"none", *installed}))
            raise CannotStart(f"OTEL_PROPAGATORS: {rule}")
