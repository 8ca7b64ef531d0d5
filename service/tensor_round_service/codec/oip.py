"""Inference requests of the Open Inference Protocol (``/v2``), as plain values.

The JSON object of a request is its inference header. A tensor's numbers are in the header
(``data``), follow it as bytes (the binary extension), or are in memory that both sides share (the
shared-memory extension). Models, and their rules on names, dtypes and shapes, are not defined
here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

#: The HTTP field with the length of the inference header, in bytes of the uncompressed body.
HEADER_LENGTH = "Inference-Header-Content-Length"
#: The longest inference header without ``data``, in bytes.
MAX_BARE_HEADER_LENGTH = 64 << 10
#: The longest inference header, in bytes.
MAX_HEADER_LENGTH = MAX_BARE_HEADER_LENGTH + (16 << 20)
#: Object members, and values outside ``data``: more than fit into a header without ``data``.
MAX_HEADER_VALUES = MAX_BARE_HEADER_LENGTH // 2
#: The deepest nesting: request, inputs, input and parameters, and arrays of the highest rank.
MAX_HEADER_DEPTH = 4 + 64

Parameters: TypeAlias = Mapping[str, str | int | float | bool]


@dataclass(frozen=True, slots=True)
class Inline:
    """The numbers are in the inference header, in the form of :func:`.jsontensor.read`."""

    data: Any


@dataclass(frozen=True, slots=True)
class Binary:
    """The numbers follow the inference header, as ``byte_size`` little-endian bytes."""

    byte_size: int


@dataclass(frozen=True, slots=True)
class Region:
    """``byte_size`` bytes of a registered region of shared memory, from ``offset`` on."""

    name: str
    byte_size: int
    offset: int


Source: TypeAlias = Inline | Binary | Region


@dataclass(frozen=True, slots=True)
class Input:
    """An input tensor of a request."""

    name: str
    datatype: str
    shape: tuple[int, ...]
    parameters: Parameters
    source: Source


@dataclass(frozen=True, slots=True)
class Output:
    """A requested output: written into ``region``, sent as bytes if ``binary``, or else as JSON."""

    name: str
    parameters: Parameters
    binary: bool
    region: Region | None


@dataclass(frozen=True, slots=True)
class Request:
    """An inference request. Without ``outputs`` all are sent, as bytes if ``binary_output``.

    With ``strict_json`` NaNs and infinities in the response are strings instead of the bare tokens
    that most clients of the protocol read and write.
    """

    id: str | None
    parameters: Parameters
    inputs: tuple[Input, ...]
    outputs: tuple[Output, ...]
    binary_output: bool
    strict_json: bool = False

    @property
    def uses_shared_memory(self) -> bool:
        """Whether any input or output is in a region."""
        return any(isinstance(tensor.source, Region) for tensor in self.inputs) or any(
            output.region is not None for output in self.outputs
        )
