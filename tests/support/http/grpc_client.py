"""gRPC by the packages h2 and protobuf, which share nothing with the service but descriptors."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator, MutableMapping, MutableSequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

import h2.config
import h2.connection
import h2.events
import numpy as np
from google.protobuf import descriptor_pb2, descriptor_pool, message, message_factory

from support.http.http2_frames import split
from support.services.server import Service
from tensor_round_service.grpc.messages import DESCRIPTORS
from tensor_round_service.net.http2.frames import Kind

FILES = descriptor_pb2.FileDescriptorSet.FromString(DESCRIPTORS)
_POOL = descriptor_pool.DescriptorPool()
for _file in FILES.file:
    _POOL.Add(_file)


def theirs(name: str) -> Any:
    """The class of a message, by its full name, which begins with a dot."""
    return message_factory.GetMessageClass(_POOL.FindMessageTypeByName(name[1:]))


def plain(told: message.Message) -> dict[str, Any]:
    """The members of a message as plain values, also those that have their default.

    Not those of a choice that are not chosen, nor messages that are missing.
    """
    return {
        each.name: _named(each, getattr(told, each.name))
        for each in told.DESCRIPTOR.fields
        if not each.has_presence or told.HasField(each.name)
    }


def _named(field: Any, value: Any) -> Any:
    """A member's value; of an enumeration its name."""
    match value:
        case MutableMapping():
            values = field.message_type.fields_by_name["value"]
            return {key: _named(values, item) for key, item in value.items()}
        case MutableSequence():
            return [_named(field, item) for item in value]
        case message.Message():
            return plain(value)
    return field.enum_type.values_by_number[value].name if field.enum_type else value


SERVICE = "inference.GRPCInferenceService"
#: The typed contents of each type; a type that is none has a float's.
_TYPED = {
    **{f"{kind.upper()}{bits}": kind for kind in ("int", "uint") for bits in (8, 16, 32)},
    **{name.upper(): name for name in ("int64", "uint64", "fp64", "bool")},
}


def made(name: str, /, **members: Any) -> message.Message:
    """A message of the package ``inference``, or by its full name."""
    full = f".{name}" if "." in name else f".inference.{name}"
    found: message.Message = theirs(full)(**members)
    return found


@dataclass
class Answer:
    """What came of a call."""

    fields: dict[str, str] = field(default_factory=dict)
    content: bytearray = field(default_factory=bytearray)
    is_ended: bool = False
    was_reset: bool = False

    @property
    def status(self) -> int:
        return int(self.fields["grpc-status"])

    @property
    def text(self) -> str:
        return unquote(self.fields.get("grpc-message", ""))

    @property
    def messages(self) -> list[bytes]:
        """The messages so far."""
        found, at = [], 0
        while at + 5 <= len(self.content):
            flag, length = struct.unpack_from(">BI", self.content, at)
            assert flag == 0
            if at + 5 + length > len(self.content):
                break
            found.append(bytes(self.content[at + 5 : at + 5 + length]))
            at += 5 + length
        return found

    def read(self, name: str) -> Any:
        """The only message, which must have come with status 0."""
        assert self.status == 0, self.fields
        (content,) = self.messages
        told = made(name)
        told.ParseFromString(content)
        return told


class Client:
    """One connection."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.state = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="utf-8"))
        self.state.initiate_connection()
        self.state.increment_flow_control_window((1 << 31) - 1 - 65535)
        self.state.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: (1 << 31) - 1})
        self.answers: dict[int, Answer] = {}
        self._unread = b""
        self._holds = False

    def begin(self, path: str, *fields: tuple[str, str]) -> int:
        """Begin a call; ``path`` is that of a method of the inference service, or a whole one."""
        stream = self.state.get_next_available_stream_id()
        whole = path if path.startswith("/") else f"/{SERVICE}/{path}"
        own = {"content-type": "application/grpc", **dict(fields)}
        pseudo = {":method": "POST", ":scheme": "http", ":path": whole, ":authority": "127.0.0.1"}
        pseudo |= {name: own.pop(name) for name in pseudo.keys() & own.keys()}
        self.state.send_headers(stream, [*pseudo.items(), ("te", "trailers"), *own.items()])
        self.answers[stream] = Answer()
        self.flush()
        return stream

    def send(self, stream: int, content: bytes, *, ends: bool = False, cut: int = 1 << 14) -> None:
        """Send DATA in frames of at most ``cut`` bytes, as the windows allow."""
        at, answer = 0, self.answers[stream]
        while at < len(content) and not answer.is_ended:
            room = min(cut, self.state.local_flow_control_window(stream))
            room = min(room, self.state.max_outbound_frame_size)
            if not room:
                self.receive()
                continue
            self.state.send_data(stream, content[at : at + room])
            at += room
            self.flush()
        if ends and not answer.is_ended:
            self.state.end_stream(stream)
            self.flush()

    def finish(self, stream: int) -> Answer:
        """Wait for the end of a call."""
        answer = self.answers[stream]
        while not answer.is_ended:
            self.receive()
        return answer

    def wait(self, stream: int, count: int) -> list[bytes]:
        """Wait for so many messages."""
        while len(self.answers[stream].messages) < count:
            assert not self.answers[stream].is_ended, self.answers[stream]
            self.receive()
        return self.answers[stream].messages

    def call(
        self,
        path: str,
        content: bytes | message.Message,
        *fields: tuple[str, str],
        cut: int = 1 << 14,
        at_once: bool = False,
    ) -> Answer:
        """One call with one message, and its end; frames go one by one, or all at once."""
        self._holds = at_once
        stream = self.begin(path, *fields)
        self.send(stream, framed(content), ends=True, cut=cut)
        self._holds = False
        self.flush()
        return self.finish(stream)

    def receive(self, *, acknowledges: bool = True) -> None:
        """Use what comes next; what is not acknowledged opens no window."""
        received = self.sock.recv(1 << 16)
        if not received:
            raise ConnectionResetError("the service has closed the connection")
        frames, self._unread = split(self._unread + received)
        # h2 takes no answers after a GOAWAY, which says that no further calls are served.
        told = b"".join([each.whole for each in frames if each.kind != Kind.GOAWAY])
        for event in self.state.receive_data(told):
            stream = getattr(event, "stream_id", None)
            answer = self.answers.get(stream) if stream else None
            if answer is None:
                continue
            match event:
                case h2.events.ResponseReceived() | h2.events.TrailersReceived():
                    answer.fields |= dict(event.headers)
                case h2.events.DataReceived():
                    answer.content += event.data
                    if acknowledges:
                        self.state.acknowledge_received_data(event.flow_controlled_length, stream)
                case h2.events.StreamEnded():
                    answer.is_ended = True
                case h2.events.StreamReset():
                    answer.is_ended = True
                    answer.was_reset = answer.was_reset or "grpc-status" not in answer.fields
        self.flush()

    def flush(self) -> None:
        if not self._holds:
            self.sock.sendall(self.state.data_to_send())


@contextmanager
def connected(service: Service) -> Iterator[Client]:
    """A client of a service."""
    with service.connect() as sock:
        yield Client(sock)


def framed(content: bytes | message.Message, *, is_compressed: bool = False) -> bytes:
    """A message with its prefix."""
    raw = content if isinstance(content, bytes) else content.SerializeToString()
    return struct.pack(">BI", is_compressed, len(raw)) + raw


def infer_request(
    document: dict[str, Any], payload: bytes | None = None, model: str = "round", version: str = ""
) -> message.Message:
    """The request that an inference over HTTP has as this JSON, and the payload behind it.

    Numbers in the JSON become typed contents. A payload of several tensors is cut into them.
    """
    lengths = []
    request: Any = made("ModelInferRequest", model_name=model, model_version=version)
    request.id = document.get("id", "")
    _set(request.parameters, document.get("parameters", {}))
    for tensor in document["inputs"]:
        added = request.inputs.add(
            name=tensor["name"], datatype=tensor["datatype"], shape=tensor["shape"]
        )
        parameters = dict(tensor.get("parameters", {}))
        if "binary_data_size" in parameters:
            lengths.append(parameters.pop("binary_data_size"))
        _set(added.parameters, parameters)
        if "data" in tensor:
            kind = _TYPED.get(tensor["datatype"], "fp32")
            added.contents.SetInParent()
            numbers = np.array(tensor["data"], object).reshape(-1).tolist()
            getattr(added.contents, f"{kind}_contents").extend(numbers)
    for tensor in document.get("outputs", ()):
        _set(request.outputs.add(name=tensor["name"]).parameters, tensor.get("parameters", {}))
    for length in lengths[:-1]:
        request.raw_input_contents.append((payload or b"")[:length])
        payload = (payload or b"")[length:]
    if payload is not None:
        request.raw_input_contents.append(payload)
    return request


def _set(into: Any, parameters: dict[str, Any]) -> None:
    names = {bool: "bool_param", int: "int64_param", str: "string_param", float: "double_param"}
    for name, value in parameters.items():
        setattr(into[name], names[type(value)], value)


def tensor_of(answer: Answer, dtype: str = "<f4") -> np.ndarray[Any, Any]:
    """The output of an inference, which is raw."""
    (raw,) = answer.read("ModelInferResponse").raw_output_contents
    return np.frombuffer(raw, dtype)


def output_bytes(response: Any) -> bytes:
    """The output of an inference, which is raw, or has typed contents, or is elsewhere."""
    raw = b"".join(response.raw_output_contents)
    (output,) = response.outputs
    if not output.HasField("contents"):
        return raw
    assert not response.raw_output_contents
    kind = _TYPED.get(output.datatype, "fp32")
    numbers = getattr(output.contents, f"{kind}_contents")
    if kind.startswith("fp"):  # Python has no float32: a NaN might lose bits
        return bytes(output.contents.SerializeToString()[-len(numbers) * int(kind[2:]) // 8 :])
    return np.array(numbers, output.datatype.lower()).tobytes()
