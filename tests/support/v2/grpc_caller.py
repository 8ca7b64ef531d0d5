"""gRPC by the packages h2 and protobuf; see :mod:`.callers`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from google.protobuf import message

from support.http.grpc_client import (
    Answer,
    connected,
    framed,
    infer_request,
    made,
    output_bytes,
    plain,
)
from support.http.inference_form import Outcome

from .callers import Caller, Unfinished

#: The status of the access log for that of gRPC; other refusals are of the request.
_STATUSES = {0: 200, 3: 400, 4: 408, 5: 404, 8: 413, 12: 501, 13: 500, 14: 503, 16: 401}


class GrpcCaller(Caller):
    """gRPC on HTTP/2."""

    protocol = "h2"

    def infer(
        self,
        request: dict[str, Any],
        payload: bytes | None = None,
        model: str = "round",
        version: str = "",
        fields: Mapping[str, str] | None = None,
    ) -> Outcome:
        message = infer_request(request, payload, model, version)
        with connected(self.service) as client:
            return _inferred(client.call("ModelInfer", message, *_metadata(fields)))

    @contextmanager
    def begun(self, request: dict[str, Any], payload: bytes, sent: int) -> Iterator[Unfinished]:
        content = framed(infer_request(request, payload))
        split = len(content) - len(payload) + sent
        with connected(self.service) as client:
            stream = client.begin("ModelInfer")
            client.send(stream, content[:split])
            yield Unfinished(
                lambda: client.send(stream, content[split:], ends=True),
                lambda: _inferred(client.finish(stream)),
            )

    def ask(self, what: str, /, fields: Mapping[str, str] | None = None, **members: Any) -> Outcome:
        with connected(self.service) as client:
            answer = client.call(what, made(f"{what}Request", **members), *_metadata(fields))
        document = None if answer.status else unwrapped(answer.read(f"{what}Response"))
        return _outcome(answer, document, b"")


def _metadata(fields: Mapping[str, str] | None) -> list[tuple[str, str]]:
    return [(name.lower(), value) for name, value in (fields or {}).items()]


def _outcome(answer: Answer, document: Any, payload: bytes) -> Outcome:
    assert bool(answer.text) is bool(answer.status)
    assert "\n" not in answer.text
    return Outcome(_STATUSES[answer.status], answer.text, document, payload, answer.fields)


def _inferred(answer: Answer) -> Outcome:
    if answer.status:
        assert not answer.content
        return _outcome(answer, None, b"")
    response = answer.read("ModelInferResponse")
    return _outcome(answer, unwrapped(response), output_bytes(response))


def unwrapped(response: message.Message) -> Any:
    """A response as HTTP has it: lists without names, and nothing about what is not there."""
    match document := plain(response):
        case {"raw_output_contents": _, "outputs": outputs}:
            del document["raw_output_contents"]
            for output in outputs:
                output.pop("contents", None)
                output["parameters"] = _chosen(output["parameters"])
        case {"models": models}:
            return [{name: value for name, value in each.items() if value} for each in models]
        case {"config": config}:
            return config
        case {"regions": regions}:
            return [*regions.values()]
        case {"settings": settings}:
            return _chosen(settings)
    return document


def _chosen(values: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Values, each of which is a choice of types."""
    return {name: value for name in values for value in values[name].values()}
