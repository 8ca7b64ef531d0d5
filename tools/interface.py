"""Print what docs/api-policy.md calls stable of the tensor-round that this Python imports.

Each line is a subject and words about it. A later version is compatible if it has every word of
each subject, and no further word that ends with ``!``, which marks what a caller must give.
`make release` keeps what it has released in tests/packaging/interface.txt.
"""

from __future__ import annotations

import enum
import hashlib
import http.client
import inspect
import json
import re
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import is_dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from typer.main import get_command

import tensor_round
import tensor_round_service
import tensor_round_verify
from tensor_round_cli import app
from tensor_round_service.settings import Settings

Lines = Iterator[tuple[str, list[str]]]
Schema = dict[str, Any]
KEY = "key"
ROUND = {"operator": "onnx", "dtype": "float32", "data": [0.5]}


def interface() -> dict[str, set[str]]:
    """Every subject with its words."""
    sources = (python(), javascript(), settings(), commands(), service(), image())
    found: dict[str, set[str]] = {}
    for subject, words in chain.from_iterable(sources):
        found.setdefault(subject, set()).update(words)
    return found


def lost(old: dict[str, set[str]], new: dict[str, set[str]]) -> dict[str, set[str]]:
    """What a caller of the old interface misses in the new one: words by subject."""
    found = {}
    for subject, words in old.items():
        now = new.get(subject)
        if now is None:
            found[subject] = {"gone"}
            continue
        missing = {word for word in words - now if word.removesuffix("!") not in now}
        must = {word for word in now - words if word.endswith("!")}
        if missing | must:
            found[subject] = missing | must
    return found


def read(text: str) -> dict[str, set[str]]:
    """The subjects and words of a record; its first line names the version."""
    lines = (line.split(": ", 1) for line in text.splitlines()[1:])
    return {subject: set(words.split()) for subject, words in lines}


def python() -> Lines:
    """Names, parameters and members of the packages' ``__all__``."""
    for package in (tensor_round, tensor_round_verify):
        for name in package.__all__:
            subject = f"{package.__name__}.{name}"
            yield from _described(subject, getattr(package, name), package.__all__)


def _described(subject: str, value: Any, names: Sequence[str]) -> Lines:
    """A public name. What a class has of a public base stands there."""
    if isinstance(value, type) and issubclass(value, enum.Enum):
        yield subject, ["enum", *(f"{member.name}={member.value}" for member in value)]
    elif isinstance(value, type):
        own = [kind for kind in value.__mro__ if kind.__module__.startswith("tensor_round")]
        bases = [
            kind
            for kind in value.__mro__[1:-1]
            if kind.__name__ in names or kind.__module__ == "builtins"
        ]
        inherited = {name for kind in bases for name in dir(kind)}
        words = [f"is:{kind.__name__}" for kind in bases]
        if not is_result(value):
            words += _parameters(value)
        members = {name for kind in own for name in [*vars(kind), *_fields(kind)]}
        stated = members - inherited | members & {"code", "status"}
        for name in sorted(name for name in stated if not name.startswith(("_", "model_"))):
            member = getattr(value, name, None)
            if inspect.isroutine(member):
                yield f"{subject}.{name}", ["call", *_parameters(member)]
            elif name in ("code", "status"):
                words.append(f".{name}={member}")
            else:
                words.append(f".{name}")
        yield subject, ["class", *words]
    elif inspect.isroutine(value):
        yield subject, ["call", *_parameters(value)]
    else:
        kind = type(value)
        yield subject, [kind.__name__ if kind.__module__ == "builtins" else "value"]


def is_result(kind: type) -> bool:
    """Whether callers are given objects of a class and make none: dataclasses but operators."""
    return is_dataclass(kind) and not issubclass(kind, tensor_round.RoundOperator)


def _fields(kind: type) -> list[str]:
    return [*inspect.get_annotations(kind)]


def _parameters(call: Callable[..., Any]) -> Iterator[str]:
    try:
        parameters = inspect.signature(call).parameters.values()
    except ValueError:  # of a class of C
        return
    for place, parameter in enumerate(each for each in parameters if each.name != "self"):
        name = parameter.name
        if parameter.kind is parameter.POSITIONAL_OR_KEYWORD:
            yield f"{place}:{name}"
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            yield f"{'*' if parameter.kind is parameter.VAR_POSITIONAL else '**'}{name}"
        elif parameter.kind is parameter.POSITIONAL_ONLY:
            yield f"{place}:" + _end(parameter.default)
        else:
            yield name + _end(parameter.default)


def _end(default: Any) -> str:
    """What follows the name of a parameter: `!` if it must be given."""
    if default is inspect.Parameter.empty:
        return "!"
    simple = default is None or isinstance(default, bool | int | float | str)
    return f"={default!s}".replace(" ", "_") if simple else ""


def javascript() -> Lines:
    """Exports of the client for JavaScript, and its methods."""
    folder = Path(tensor_round_service.__file__ or "").parent / "pages/web/client"
    for names, file in re.findall(
        r'^export (?:\*|\{(.+?)\}) from "./(\w+\.js)"', (folder / "index.js").read_text(), re.M
    ):
        text = (folder / file).read_text()
        made = re.findall(r"^export (?:async )?(?:class|function|const) (\w+)", text, re.M)
        for name in names.replace(" ", "").split(",") if names else made:
            yield f"js {name}", ["export"]
        for body in re.findall(r"^export class Client \{$(.+?)^\}", text, re.M | re.S):
            for method, given in re.findall(r"^  (?:async )?(\w+)\((.*)\) \{$", body, re.M):
                plain = re.sub(r"\{.*?\}", "options", given)
                words = [
                    f"{place}:{each.split()[0]}" for place, each in enumerate(plain.split(","))
                ]
                yield f"js Client.{method}", ["call", *words]


def settings() -> Lines:
    """Settings with their types and defaults."""
    made = Settings.model_json_schema()
    for name, schema in made["properties"].items():
        default = schema.get("default")
        yield f"setting {name.upper()}", [*_types(schema, made), f"={default}".replace(" ", "_")]


def commands() -> Lines:
    """Commands with their arguments and options, and the exit codes that the program names."""
    yield "exit codes", re.findall(r"\b(\d+) (?:for|if|after)", app.__doc__ or "")
    for name, command in get_command(app.app).commands.items():
        words = []
        arguments = 0
        for parameter in command.params:
            must = "!" if parameter.required else ""
            if parameter.param_type_name == "argument":
                words.append(f"{arguments}{must}")
                arguments += 1
            else:
                words += [option + must for option in parameter.opts + parameter.secondary_opts]
        yield f"tensor-round {name}", words


def image() -> Lines:
    """The user, port, entry point and stop signal of the images."""
    text = (Path(__file__).parents[1] / "Dockerfile").read_text()
    for line in re.findall(r"^(?:EXPOSE|STOPSIGNAL|ENTRYPOINT|USER) .*", text, re.M):
        name, _, value = line.partition(" ")
        yield f"image {name}", [value.replace(" ", "")]


class Connection(http.client.HTTPConnection):
    """HTTP to a Unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost")
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self._path)

    def ask(self, method: str, path: str, body: bytes | None = None) -> str:
        fields = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
        self.request(method, path, body, fields)
        return self.getresponse().read().decode()


def service() -> Lines:
    """What a service responds to, by its OpenAPI document, its catalog and its metrics."""
    with tempfile.TemporaryDirectory() as folder:
        path, keys = f"{folder}/socket", Path(folder) / "keys"
        keys.write_text(f"{hashlib.sha256(KEY.encode()).hexdigest()} label\n")
        options = ["--uds", path, "--backend", "numpy", "--api-keys-file", str(keys)]
        running = subprocess.Popen(
            [sys.executable, "-m", "tensor_round_service", *options],
            stderr=subprocess.PIPE,
            text=True,
        )
        assert running.stderr is not None
        for line in running.stderr:
            if "running on" in line:
                break
        connection = Connection(path)
        try:
            yield from _routes(json.loads(connection.ask("GET", "/openapi.json")))
            yield from _results(json.loads(connection.ask("GET", "/conformance")))
            for row in json.loads(connection.ask("POST", "/v2/repository/index", b"{}")):
                yield f"model {row['name']}", [row["version"]]
            connection.ask("POST", "/round", json.dumps(ROUND).encode())
            yield from _metrics(connection.ask("GET", "/metrics"))
        finally:
            connection.close()
            running.terminate()
            running.communicate()


def _routes(document: Schema) -> Lines:
    """Parameters, representations, statuses and fields of each operation."""
    schemas = document["components"]["schemas"]
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            if method in ("head", "options", "parameters"):
                continue
            subject = f"{method.upper()} {path}"
            words = []
            for stated in operation.get("parameters", []):
                given = _resolved(stated, document)
                words.append(f"{given['in']}:{given['name']}" + "!" * given.get("required", False))
            request = _resolved(operation.get("requestBody", {}), document).get("content", {})
            responses = operation["responses"].items()
            replies = {status: _resolved(reply, document) for status, reply in responses}
            yield subject, [*words, *request, *replies]
            for kind, content in request.items():
                if fields := [*_members(content.get("schema", {}), document, True)]:
                    yield f"{subject} {kind}", fields
            for status, reply in replies.items():
                if status >= "400":
                    yield f"errors of {path.split('/')[1]}", [*reply["content"]]
                    continue
                found = [f"header:{name}" for name in reply.get("headers", {})]
                for kind, content in reply.get("content", {}).items():
                    found += [kind, *_members(content.get("schema", {}), document, False)]
                yield f"{subject} {status}", found
    for name in sorted(_sent(document)):
        yield f"schema {name}", [*_members(schemas[name], document, True, deep=False)]


def _sent(document: Schema) -> set[str]:
    """The schemas of requests, those in them included."""
    schemas = document["components"]["schemas"]
    found: set[str] = set()
    operations = [
        {key: operation.get(key) for key in ("requestBody", "parameters")}
        for methods in document["paths"].values()
        for operation in methods.values()
    ]
    waiting = [json.dumps(operations), json.dumps(document["components"].get("parameters"))]
    while waiting:
        names = set(re.findall(r'"#/components/schemas/(\w+)"', waiting.pop())) - found
        found |= names
        waiting += [json.dumps(schemas[name]) for name in names]
    return found


def _resolved(schema: Schema, document: Schema) -> Schema:
    while "$ref" in schema:
        found: Any = document
        for name in schema["$ref"].removeprefix("#/").split("/"):
            found = found[name]
        schema = found
    return schema


def _members(
    schema: Schema, document: Schema, is_request: bool, prefix: str = "", *, deep: bool = True
) -> Iterator[str]:
    """Names of members with those of members in them, and the values that are listed."""
    if "$ref" in schema and not deep:
        return
    schema = _resolved(schema, document)
    for value in [*schema.get("enum", []), *([schema["const"]] if "const" in schema else [])]:
        yield f"{prefix}={value}".replace(" ", "_")
    for way in ("anyOf", "oneOf", "allOf"):
        for one in schema.get(way, []):
            if not (is_request and "$ref" in one):
                yield from _members(one, document, is_request, prefix, deep=deep)
    if items := schema.get("items"):
        yield from _members(items, document, is_request, f"{prefix}[]", deep=deep)
    for name, inner in schema.get("properties", {}).items():
        must = is_request and name in schema.get("required", [])
        yield f"{prefix}.{name}" + "!" * must
        if prefix.count(".") < 6 and not (is_request and "$ref" in inner):
            yield from _members(inner, document, is_request, f"{prefix}.{name}", deep=deep)


def _types(schema: Schema, document: Schema) -> list[str]:
    found = [_resolved(one, document) for one in [schema, *schema.get("anyOf", [])]]
    names = [one["type"] for one in found if "type" in one]
    return names + [str(value) for one in found for value in one.get("enum", [])]


def _results(report: Schema) -> Lines:
    """The published digests of the results."""
    for dtype, directions in report["backends"]["numpy"].items():
        found = {direction: row["sha256"][:12] for direction, row in directions.items()}
        yield f"results {dtype}", [f"{direction}={digest}" for direction, digest in found.items()]


def _metrics(text: str) -> Lines:
    """Types and labels; those of a metric without a value are not seen."""
    for name, kind in re.findall(r"^# TYPE (\S+) (\S+)$", text, re.M):
        sample = re.findall(rf"^{name}(?:_bucket|_count)?\{{(.*)\}} ", text, re.M)
        labels = {label for found in sample for label in re.findall(r'(\w+)="', found)}
        yield f"metric {name}", [kind, *sorted(labels)]


def main() -> None:
    """Print the record."""
    print("tensor-round", tensor_round.__version__)
    for subject, words in sorted(interface().items()):
        if words:
            print(f"{subject}: {' '.join(sorted(words))}")


if __name__ == "__main__":
    main()
