"""Requests of the Open Inference Protocol, whatever carries them: a test of one is a test of both.

An inference is a document with its tensor behind it, as over HTTP; any other request is named as in
the protocol's service, with the fields of its message.
"""

from __future__ import annotations

import base64
import contextlib
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from support.http.inference_form import HEADER_LENGTH, Outcome, infer_path
from support.services.server import Reply, Service


@dataclass(frozen=True)
class Unfinished:
    """A request of which a part was sent.

    ``rest`` sends the rest, and ``outcome`` says what comes of it as it is.
    """

    rest: Callable[[], object]
    outcome: Callable[[], Outcome]

    def finish(self) -> Outcome:
        """Send the rest; what comes of it."""
        self.rest()
        return self.outcome()


#: Method and path of requests that are for a model or region alike; behind it what they are for.
_PATHS = {
    "ServerLive": ("GET", "/v2/health/live"),
    "ServerReady": ("GET", "/v2/health/ready"),
    "ServerMetadata": ("GET", "/v2"),
    "ModelReady": ("GET", "/v2/models{name}{version}/ready"),
    "ModelMetadata": ("GET", "/v2/models{name}{version}"),
    "ModelConfig": ("GET", "/v2/models{name}{version}/config"),
    "ModelStatistics": ("GET", "/v2/models{name}{version}/stats"),
    "RepositoryIndex": ("POST", "/v2/repository/index"),
    "RepositoryModelLoad": ("POST", "/v2/repository/models{model_name}/load"),
    "RepositoryModelUnload": ("POST", "/v2/repository/models{model_name}/unload"),
    "LogSettings": ("GET", "/v2/logging"),
    "TraceSetting": ("GET", "/v2{model}/trace/setting"),
    **{
        f"{kind.title()}SharedMemory{verb.title()}": (
            "GET" if verb == "status" else "POST",
            f"/v2/{kind}sharedmemory{{region}}/{verb}",
        )
        for kind in ("system", "cuda")
        for verb in ("status", "register", "unregister")
    },
}


class Caller:
    """One way to call a service, on a connection of its own each time.

    This one is HTTP/1.1 by the standard library; others override all of it.
    """

    #: Its name in TLS's negotiation.
    protocol = "http/1.1"

    def __init__(self, service: Service) -> None:
        self.service = service

    def infer(
        self,
        request: dict[str, Any],
        payload: bytes | None = None,
        model: str = "round",
        version: str = "",
        fields: Mapping[str, str] | None = None,
    ) -> Outcome:
        """Ask for an inference whose output is in bytes or in shared memory."""
        head = _head(request)
        stated = {} if payload is None else {HEADER_LENGTH: str(len(head))}
        path, body = infer_path(model, version or None), head + (payload or b"")
        return _inferred(self.service.request("POST", path, body, {**stated, **(fields or {})}))

    @contextmanager
    def begun(self, request: dict[str, Any], payload: bytes, sent: int) -> Iterator[Unfinished]:
        """An inference of which ``sent`` bytes of the tensor were sent, and all before them."""
        head = _head(request)
        with contextlib.closing(self.service.connection()) as connection:
            connection.putrequest("POST", infer_path("round"))
            connection.putheader(HEADER_LENGTH, str(len(head)))
            connection.putheader("Content-Length", str(len(head) + len(payload)))
            connection.endheaders(head + payload[:sent])
            yield Unfinished(
                lambda: connection.send(payload[sent:]), lambda: _inferred(Reply.read(connection))
            )

    def ask(self, what: str, /, fields: Mapping[str, str] | None = None, **members: Any) -> Outcome:
        """Any other request."""
        method, path = _PATHS[what]
        name, version, model_name = (
            quote(members.pop(name, "")) for name in ("name", "version", "model_name")
        )
        path = path.format(
            name=f"/{name}" if name else "",
            version=f"/versions/{version}" if version else "",
            model_name=f"/{model_name}",
            model=f"/models/{model_name}" if model_name else "",
            region=f"/region/{name}" if name else "",
        )
        if "settings" in members:  # a change of them
            method, members = "POST", members["settings"]
        if "raw_handle" in members:
            members["raw_handle"] = {"b64": base64.b64encode(members["raw_handle"]).decode()}
        body = json.dumps(members).encode() if method == "POST" else None
        return Outcome.of(self.service.request(method, path, body, fields))


def _head(request: dict[str, Any]) -> bytes:
    """The JSON of a request for bytes, unless it says otherwise."""
    wished = {"binary_data_output": True, **request.get("parameters", {})}
    return json.dumps({**request, "parameters": wished}).encode()


def _inferred(reply: Reply) -> Outcome:
    outcome = Outcome.of(reply)
    if outcome.status == 200:
        for output in outcome.document["outputs"]:
            output.setdefault("parameters", {}).pop("binary_data_size", None)
    return outcome
