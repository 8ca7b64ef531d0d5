"""The options that several commands have, and a client made from them."""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Unpack

import typer

from tensor_round.clients.client import Client
from tensor_round.clients.options import DEFAULT_URL as DEFAULT_URL
from tensor_round.clients.options import Options
from tensor_round.contract.dtypes import DTYPES
from tensor_round.contract.errors import InvalidArgument, TensorRoundError

from .errors import print_error, print_file_error

#: The default timeout: so many seconds, and one more for each so many bytes.
BASE_TIMEOUT, TIMEOUT_BYTES_PER_SECOND = 30.0, 1 << 20

#: More characters of a key are not read.
_KEY_CHARACTERS = 1 << 16
_URL = "http://, https:// or unix:///path; local: rounds without a service."
Url = Annotated[str, typer.Option(metavar="URL", envvar="TENSOR_ROUND_URL", help=_URL)]
UrlArgument = Annotated[str, typer.Argument(metavar="URL", envvar="TENSOR_ROUND_URL", help=_URL)]
Connections = Annotated[
    int,
    typer.Option(
        metavar="N", min=1, help="Maximum number of connections, and of tiles sent at once."
    ),
]
TileBytes = Annotated[
    int,
    typer.Option(metavar="BYTES", min=1, help="Maximum size of a tile; each tile is one request."),
]
AsJson = Annotated[
    bool, typer.Option("--json", help="Print results, and errors on stderr, as JSON.")
]
Digest = Annotated[
    bool, typer.Option("--digest", help="Verify payloads end to end by SHA-256 (RFC 9530).")
]
DTypeOption = Annotated[
    str | None,
    typer.Option(
        "--dtype",
        metavar="NAME",
        autocompletion=lambda: [dtype.name for dtype in DTYPES],
        help="The dtype of elements that the file has no name for: bfloat16, fp8.",
    ),
]
Progress = Annotated[
    bool | None,
    typer.Option(help="Show a progress bar.", show_default="on a terminal"),
]


@dataclass(frozen=True, slots=True)
class Connection:
    """The options for the service that a command calls."""

    url: Url = DEFAULT_URL
    api_key_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            exists=True,
            dir_okay=False,
            help="File whose first line is the API key. Default: TENSOR_ROUND_API_KEY.",
        ),
    ] = None
    ca_file: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH", exists=True, help="Trusted certificates, in place of the system's."
        ),
    ] = None
    cert_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            exists=True,
            dir_okay=False,
            help="The client's own certificate with its key.",
        ),
    ] = None
    timeout: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            help="Limit for the whole command.",
            show_default="30, and 1 for each MiB",
        ),
    ] = None

    @contextlib.contextmanager
    def client(
        self, as_json: bool, nbytes: float = 0, **options: Unpack[Options]
    ) -> Iterator[Client]:
        """Yield a client for ``nbytes``; its errors become messages on stderr and exit codes."""
        limit = BASE_TIMEOUT + nbytes / TIMEOUT_BYTES_PER_SECOND
        complete: Options = {
            "api_key": _first_line(self.api_key_file),
            "verify": True if self.ca_file is None else self.ca_file,
            "cert": self.cert_file,
            "timeout": limit if self.timeout is None else self.timeout,
            **options,
        }
        try:
            with Client(self.url, **complete) as client:
                yield client
        except InvalidArgument as error:
            raise typer.BadParameter(error.detail) from None
        except TensorRoundError as error:
            print_error(error, self.url, as_json)
            raise typer.Exit(1) from None
        except BrokenPipeError:
            # The reader of standard output has closed it, as head does. Python flushes it at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(1) from None
        except OSError as error:
            print_file_error(error, as_json)
            raise typer.Exit(1) from None


@dataclass(frozen=True, slots=True)
class Transfer:
    """The options for the file that a command sends."""

    dtype: DTypeOption = None
    connections: Connections = 4
    tile_bytes: TileBytes = 64 << 20
    digest: Digest = False
    progress: Progress = None


def connects(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of :class:`Connection` in place of a parameter of that type.

    Likewise those of :class:`Transfer`. A parameter of the command that has the name of an option
    stands for that option.
    """
    own = inspect.signature(command, eval_str=True).parameters
    groups = {
        name: parameter.annotation
        for name, parameter in own.items()
        if parameter.annotation in (Connection, Transfer)
    }
    options = {
        name: inspect.signature(group, eval_str=True).parameters for name, group in groups.items()
    }
    shown: dict[str, inspect.Parameter] = {}
    for name, parameter in own.items():
        for each, option in options.get(name, {name: parameter}).items():
            shown[each] = own.get(each, option.replace(kind=option.KEYWORD_ONLY))
    signature = inspect.Signature(list(shown.values()))

    @functools.wraps(command)
    def run(*arguments: Any, **given: Any) -> None:
        bound = signature.bind(*arguments, **given)
        bound.apply_defaults()
        values = bound.arguments
        made = {
            name: group(**{each: values[each] for each in options[name]})
            for name, group in groups.items()
        }
        command(**made, **{name: values[name] for name in values if name in own})

    # What typer reads.
    run.__annotations__ = {name: parameter.annotation for name, parameter in shown.items()}
    run.__dict__["__signature__"] = signature
    return run


def _first_line(path: Path | None) -> str | None:
    if path is None:
        return None
    hint = "--api-key-file"
    try:
        with path.open(encoding="utf-8") as file:
            line = file.readline(_KEY_CHARACTERS).strip()
    except OSError as error:
        raise typer.BadParameter(f"{path}: {error.strerror}", param_hint=hint) from None
    except UnicodeDecodeError:
        raise typer.BadParameter(f"{path} is not a text file", param_hint=hint) from None
    if not line:
        raise typer.BadParameter(f"the first line is empty in {path}", param_hint=hint)
    return line
