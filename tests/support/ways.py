"""Every way to have a tensor rounded or cast: what is asked for, and how each way asks.

The ways are ``/round`` in its three representations, ``/v2`` over HTTP and gRPC, both clients,
``local:`` and the command line.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

import tensor_round as tr
from support.cases.array_cases import Array, dtype_name, off_wire, on_wire
from support.cases.descriptors import UNARY
from support.cases.dialect import Document, OperatorCases
from support.clients import AnyClient, SteppedClient
from support.command_line import run
from support.http.inference_form import Outcome, binary, document, error_of, infer, tensor
from support.http.native_form import npy as npy_file
from support.http.native_form import post
from support.services.server import Reply, Service
from support.v2.grpc_caller import GrpcCaller
from tensor_round.contract.dtypes import BY_NAME, DType
from tensor_round.contract.operators.registry import operator_from_text

#: Types for which the inference protocol has no name.
CARRIED = tuple(row.name for row in BY_NAME.values() if row.oip is None)
#: Those for which a .npy file has no name.
UNNAMED = ("bfloat16", *CARRIED)


class Refused(Exception):
    """A refusal; its text is what the caller reads."""


@dataclass(frozen=True)
class Asked:
    """A tensor, and its operator as one word; of a cast, the target type as well.

    ``document`` is the descriptor, where that of the word could not be made.
    """

    word: str
    x: Array
    document: Document | None = None
    to: str | None = None
    saturate: bool | None = None

    @property
    def dtype(self) -> str:
        return dtype_name(self.x)

    @property
    def target(self) -> DType:
        """The type of the result."""
        return BY_NAME[self.to or self.dtype]

    @property
    def cast(self) -> dict[str, Any]:
        """The attributes of a cast beside the word, as all ways name them."""
        given = {"to": self.to, "saturate": self.saturate}
        return {name: value for name, value in given.items() if value is not None}

    @property
    def datatype(self) -> str:
        return BY_NAME[self.dtype].oip or "UINT8"

    @property
    def descriptor(self) -> Document:
        if self.document is not None:
            return self.document
        operator = operator_from_text(self.word, **self.cast)
        text = operator.descriptor(self.x.dtype, self.x.shape).to_json()
        return dict(json.loads(text))

    @property
    def numbers(self) -> Any:
        """The elements as JSON has them."""
        return self.x.astype(float if BY_NAME[self.dtype].is_float else object).tolist()

    @property
    def payload(self) -> bytes:
        """The elements as bytes on the wire."""
        return on_wire(self.x)

    @property
    def carried_shape(self) -> list[int]:
        """The shape in the inference protocol: that of the bytes, if they have two elements."""
        halves = BY_NAME[self.dtype].is_sub_byte
        return [len(self.payload)] if halves else list(self.x.shape)

    @property
    def cases(self) -> OperatorCases:
        """What is expected of the operator: that of the longest word which this one begins with."""
        kind = [cases for cases in UNARY.values() if (cases.to is None) == (self.to is None)]
        named = [cases for cases in kind if f"{self.word}:".startswith(f"{cases.word}:")]
        return max(named, key=lambda cases: len(cases.word), default=kind[0])

    def inference(self, source: dict[str, Any]) -> tuple[dict[str, Any], str, str]:
        """A request of ``/v2`` with this input, its model and its version."""
        cases = self.cases
        attributes = [*filter(None, self.word.removeprefix(cases.word).split(":"))]
        model, operator = cases.model, cases.operator[0]
        parameters = {name: getattr(operator, name) for name in operator.required()} | self.cast
        if self.dtype in CARRIED:
            parameters["dtype"] = self.dtype
        if attributes and model.mode_parameter is not None:
            parameters[model.mode_parameter] = attributes.pop(0)
        return document(source, parameters=parameters), model.name, "".join(attributes)

    def rounded(self, content: bytes) -> Array:
        """The elements of a response, which may have padding behind them."""
        length = self.target.nbytes(self.x.size)
        assert not any(content[length:])
        elements = off_wire(content[:length], self.target.name, self.x.size)
        assert on_wire(elements) == content[:length], "spare bits are 0"
        return elements.view(self.target.numpy).reshape(self.x.shape)

    def stored(self, content: bytes) -> Array:
        """The elements in a .npy file, where each has a byte at least."""
        if self.target.is_named_by_npy or self.to is not None:
            stored: Array = np.load(BytesIO(content))
            if not self.target.is_named_by_npy:
                stored = stored.view(self.target.numpy)
            assert stored.dtype.newbyteorder("<") == self.target.numpy
            return stored
        data = content[len(content) - self.x.size * self.target.itemsize :]
        return np.frombuffer(data, self.target.numpy).reshape(self.x.shape)

    def rounded_numbers(self, numbers: Any) -> Array:
        """The elements of a response in JSON, which has infinities and NaNs as text."""
        flat = np.array(numbers, object).reshape(-1)
        read = [float(number) if isinstance(number, str) else number for number in flat]
        return np.array(read, self.target.numpy).reshape(self.x.shape)


Way = Callable[[Service, Asked], Array]


def content_of(reply: Reply) -> bytes:
    """The content of a response of ``/round``."""
    if reply.status != 200:
        problem = reply.json()
        assert (reply.status, problem["code"]) == (422, "invalid_descriptor"), problem
        raise Refused(problem["detail"])
    return reply.content


def octets(service: Service, asked: Asked) -> Array:
    reply = post(service, json.dumps(asked.descriptor), asked.payload)
    return asked.rounded(content_of(reply))


def in_json(service: Service, asked: Asked) -> Array:
    """By the descriptor, and where the word has one, by its short form: alike."""
    bodies = [{"descriptor": asked.descriptor, "data": asked.numbers}]
    if asked.document is None and asked.x.size:
        short = {"operator": asked.word, "dtype": asked.dtype, "data": asked.numbers}
        bodies += [{**short, **asked.cast}]
    fields = {"Content-Type": "application/json"}
    replies = [
        content_of(service.request("POST", "/round", json.dumps(body).encode(), fields))
        for body in bodies
    ]
    assert replies[0] == replies[-1]
    response = json.loads(replies[0])
    assert response["output"] == {"dtype": asked.target.name, "shape": list(asked.x.shape)}
    return asked.rounded_numbers(response["data"])


def npy(service: Service, asked: Asked) -> Array:
    file = npy_file(asked.x)
    query = f"operator={asked.word}" + f"&dtype={asked.dtype}" * (asked.dtype in UNNAMED)
    query += "".join(f"&{name}={str(value).lower()}" for name, value in asked.cast.items())
    fields = {"Content-Type": "application/x-npy"}
    reply = service.request("POST", f"/round?{query}", file, fields)
    return asked.stored(content_of(reply))


def inference(service: Service, asked: Asked) -> Array:
    source = binary(asked.datatype, asked.carried_shape, len(asked.payload))
    request, model, version = asked.inference(source)
    request["parameters"]["binary_data_output"] = True
    reply = infer(service, request, asked.payload, model, version or None)
    if reply.status == 400:
        raise Refused(error_of(reply))
    return asked.rounded(Outcome.of(reply).payload)


def inference_in_json(service: Service, asked: Asked) -> Array:
    is_carried = asked.dtype in CARRIED
    data = list(asked.payload) if is_carried else Asked("", asked.x.reshape(-1)).numbers
    source = tensor(asked.datatype, asked.carried_shape, data=data)
    request, model, version = asked.inference(source)
    reply = infer(service, request, None, model, version or None)
    if reply.status == 400:
        raise Refused(error_of(reply))
    output = Outcome.of(reply).output
    assert output["datatype"] == (asked.target.oip or "UINT8")
    if asked.target.oip is None:
        return asked.rounded(bytes(output["data"]))
    return asked.rounded_numbers(output["data"])


def grpc(service: Service, asked: Asked) -> Array:
    source = binary(asked.datatype, asked.carried_shape, len(asked.payload))
    request, model, version = asked.inference(source)
    outcome = GrpcCaller(service).infer(request, asked.payload, model, version)
    if outcome.status == 400:
        raise Refused(outcome.error)
    return asked.rounded(outcome.payload)


def by_client(kind: type[AnyClient], url: str | None = None) -> Way:
    def way(service: Service, asked: Asked) -> Array:
        with kind(url or service.url) as client:
            try:
                if asked.to is None:
                    y = client.round(asked.x, asked.word)
                else:
                    y = client.cast(asked.x, operator=asked.word, **asked.cast)
            except tr.InvalidDescriptor as refusal:
                raise Refused(str(refusal)) from None
        assert (y.dtype, y.shape) == (asked.target.numpy, asked.x.shape)
        return np.asarray(y)

    return way


def command_line(service: Service, asked: Asked) -> Array:
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "in.npy"), Path(folder, "out.npy")
        np.save(source, asked.x)
        kind = ["--dtype", asked.dtype] if asked.dtype in UNNAMED else []
        flags = {None: [], True: ["--saturate"], False: ["--no-saturate"]}[asked.saturate]
        command = ["round"] if asked.to is None else ["cast", "--to", asked.to, *flags]
        arguments = [*command, *map(str, (source, target)), "--operator", asked.word, *kind]
        environment = {**os.environ, "TENSOR_ROUND_URL": service.url}
        done = run([*arguments, "--json"], environment)
        if done.returncode:
            assert not target.exists()
            raise Refused(json.loads(done.stderr)["error"]["detail"])
        return asked.stored(target.read_bytes())


#: Those that carry bits, and those that carry decimal numbers, which have no NaN's payload.
BITS: dict[str, Way] = {
    "octets": octets,
    "npy": npy,
    "inference": inference,
    "grpc": grpc,
    "client": by_client(tr.Client),
    "asyncio": by_client(SteppedClient),
    "local": by_client(tr.Client, "local:"),
    "command line": command_line,
}
WAYS = BITS | {"json": in_json, "inference in json": inference_in_json}
