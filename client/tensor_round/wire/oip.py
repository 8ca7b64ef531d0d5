"""Inference requests of the Open Inference Protocol (``/v2``), as plain values.

A request is one JSON object, its head. What it says of a tensor's numbers is one of
three things: they are in the head (``data``), they follow it as bytes (the binary
extension), or they lie in memory both sides share (the shared-memory extension).
Which models there are, and what they make of names, types and shapes, is not known here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

#: The header that says how many bytes of the body, uncompressed, are its JSON head.
HEADER_LENGTH = "Inference-Header-Content-Length"
#: Of a head, in bytes, where the tensor's numbers are not in it.
MAX_BARE_HEAD_LENGTH = 64 << 10
#: Of a head, in bytes.
MAX_HEAD_LENGTH = MAX_BARE_HEAD_LENGTH + (16 << 20)
#: Members of a head's objects, and values outside the tensor's numbers: more than a bare head
#: has room for.
MAX_HEAD_VALUES = MAX_BARE_HEAD_LENGTH // 2
#: Request, inputs and input, around numbers nested as deep as any tensor has dimensions.
MAX_HEAD_DEPTH = 4 + 64

Parameters: TypeAlias = Mapping[str, str | int | float | bool]


@dataclass(frozen=True, slots=True)
class Inline:
    """The numbers are in the head; as :func:`.jsontensor.read` takes them."""

    data: Any


@dataclass(frozen=True, slots=True)
class Binary:
    """The numbers follow the head, as that many little-endian bytes."""

    byte_size: int


@dataclass(frozen=True, slots=True)
class Region:
    """That many bytes of a registered region of shared memory, from an offset in it."""

    name: str
    byte_size: int
    offset: int


Source: TypeAlias = Inline | Binary | Region


@dataclass(frozen=True, slots=True)
class Input:
    """A tensor that comes with a request."""

    name: str
    datatype: str
    shape: tuple[int, ...]
    parameters: Parameters
    source: Source


@dataclass(frozen=True, slots=True)
class Output:
    """How an output shall be sent: into a region, as bytes, or (neither) in the JSON."""

    name: str
    parameters: Parameters
    binary: bool
    region: Region | None


@dataclass(frozen=True, slots=True)
class Request:
    """An inference request; no ``outputs`` means every output, as ``binary_output`` says.

    With ``strict_json`` the NaNs and infinities of the response's JSON are strings, and not the
    bare tokens that most clients of the protocol read and write.
    """

    id: str | None
    parameters: Parameters
    inputs: tuple[Input, ...]
    outputs: tuple[Output, ...]
    binary_output: bool
    strict_json: bool = False

    @property
    def uses_shared_memory(self) -> bool:
        """Whether any input comes from a region, or any output goes to one."""
        return any(isinstance(tensor.source, Region) for tensor in self.inputs) or any(
            output.region is not None for output in self.outputs
        )
