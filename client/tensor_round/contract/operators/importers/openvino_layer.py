"""Layers of OpenVINO's intermediate representation (IR).

A layer is parsed by expat. A document type declaration is refused, and with it every entity
attack; so is a document that is too long or nests too deep.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast
from xml.parsers import expat

from ...dtypes import DTypeName
from ...errors import Fault, InvalidArgumentType, InvalidDescriptor
from ...quoting import shown
from ..dialects.openvino import DTYPES, VERSION, OpenVINODescriptor, OpenVINOMode, OpenVINORound

#: The longest layer, in characters or bytes. One with 32 dimensions has some 2 KiB.
MAX_LENGTH = 64 << 10
_MAX_DEPTH = 16
#: Precisions whose IR name, in lower case, is not the operation specification's name.
_PRECISIONS = {
    **{"FP16": "f16", "BF16": "bf16", "FP32": "f32", "FP64": "f64"},
    **{"BIN": "u1", "BOOL": "boolean"},
}
#: Decimal digits of a dimension: 2^63-1 has 19.
_MAX_DIGITS = 19


def from_openvino(layer: str | bytes) -> OpenVINORound:
    """Read the operator and the tensor in a ``<layer>`` element of an OpenVINO IR.

    ``layer`` is the element's XML. Its ``version`` is opset5 by default. The returned operator's
    ``.descriptor()`` has the precision and the dimensions of the ports; give it ``dtype`` or
    ``shape`` where they state none, or a dynamic dimension.

    Raises :class:`InvalidDescriptor` for anything but a valid Round-5, and for XML with a
    document type declaration, of more than 64 KiB, or nested deeper than 16.
    """
    root = _parsed(layer)
    if root.tag != "layer":
        raise _refusal((), f"must be one element layer, the Round of an IR, got {shown(root.tag)}")
    data = [child.attributes for child in root.children if child.tag == "data"]
    if len(data) > 1:
        raise _refusal(("data",), f"a layer has one data at most, got {len(data)}")
    ports = [port for side in ("input", "output") if (port := _port(root, side)) is not None]
    tensor = _agreed(ports)
    stated = OpenVINODescriptor.read(
        {
            **{key: root.attributes[key] for key in ("type", "version") if key in root.attributes},
            **({"data": data[0]} if data else {}),
            "input": {
                "element_type": tensor.element_type or "f32",
                "shape": [] if tensor.shape is None else tensor.shape,
            },
        }
    )
    stated.resolve()
    dtype = tensor.element_type and DTYPES[tensor.element_type]
    return OpenVINORound(
        cast(OpenVINOMode, stated.mode), dtype=cast(DTypeName | None, dtype), shape=tensor.shape
    )


@dataclass(slots=True)
class _Element:
    tag: str
    attributes: dict[str, str]
    children: list[_Element] = field(default_factory=list)
    text: str = ""

    def named(self, tag: str) -> list[_Element]:
        return [child for child in self.children if child.tag == tag]


@dataclass(frozen=True, slots=True)
class _Port:
    """The type and the shape that a port states; None for one that it does not."""

    element_type: str | None
    shape: tuple[int, ...] | None


def _parsed(layer: str | bytes) -> _Element:
    if not isinstance(layer, str | bytes):
        raise InvalidArgumentType(f"the layer must be XML as str or bytes, got {shown(layer)}")
    if len(layer) > MAX_LENGTH:
        raise _refusal((), f"a layer must have at most {MAX_LENGTH} bytes, got {len(layer)}")
    top = _Element("", {})
    path = [top]

    def start(tag: str, attributes: dict[str, str]) -> None:
        if len(path) > _MAX_DEPTH:
            raise _refusal((), f"the XML nests deeper than {_MAX_DEPTH}")
        element = _Element(tag, attributes)
        path[-1].children.append(element)
        path.append(element)

    def end(tag: str) -> None:
        path.pop()

    def text(data: str) -> None:
        path[-1].text += data

    def document_type(*declaration: object) -> None:
        raise _refusal((), "the XML must not have a document type")

    parser = expat.ParserCreate("utf-8" if isinstance(layer, str) else None)
    parser.buffer_text = True
    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.CharacterDataHandler = text
    parser.StartDoctypeDeclHandler = document_type
    try:
        # An unpaired surrogate is no UTF-8, and is refused as such.
        parser.Parse(
            layer.encode("utf-8", "surrogatepass") if isinstance(layer, str) else layer, True
        )
    except expat.ExpatError as error:
        is_name = isinstance(layer, str) and layer and "<" not in layer
        hint = "; give the layer's XML itself, not a file's name" if is_name else ""
        raise _refusal((), f"not XML: {error}{hint}") from None
    except (LookupError, ValueError):
        raise _refusal((), "the XML is of an unknown encoding") from None
    return top.children[0]


def _port(layer: _Element, side: str) -> _Port | None:
    """The only port of a side; None if the layer does not have that side."""
    sides = layer.named(side)
    if not sides:
        return None
    ports = [port for element in sides for port in element.named("port")]
    if len(ports) != 1:
        raise _refusal((side,), f"a Round has exactly one port here, got {len(ports)}")
    precision = ports[0].attributes.get("precision")
    sizes = [
        _size(dim.text.strip(), (side, "port", "dim", position))
        for position, dim in enumerate(ports[0].named("dim"))
    ]
    static = tuple(size for size in sizes if size is not None)
    return _Port(
        precision and _PRECISIONS.get(precision, precision.lower()),
        static if len(static) == len(sizes) else None,
    )


def _size(text: str, loc: tuple[str | int, ...]) -> int | None:
    """The size of a dimension; None for a dynamic one, -1."""
    if text == "-1":
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS):
        raise _refusal(loc, f"must be an integer of at least 0, or -1, got {shown(text)}")
    return int(text)


def _agreed(ports: list[_Port]) -> _Port:
    """The type and the shape that all ports agree on."""
    types = {port.element_type for port in ports} - {None}
    shapes = {port.shape for port in ports} - {None}
    if len(types) > 1:
        raise _refusal(("output", "port", "precision"), "must equal the input's")
    if len(shapes) > 1:
        raise _refusal(("output", "port", "dim"), "must equal the input's")
    return _Port(next(iter(types), None), next(iter(shapes), None))


def _refusal(loc: tuple[str | int, ...], rule: str) -> InvalidDescriptor:
    return InvalidDescriptor.of([Fault(loc, f"{VERSION.title}: {rule}")])
