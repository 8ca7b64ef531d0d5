"""Layers of OpenVINO's intermediate representation (IR), alone or in a model.

XML is parsed by expat, by way of ElementTree. A document type declaration is refused, and with it
every entity attack.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar, cast
from xml.etree import ElementTree

from ...dtypes import DTypeName
from ...errors import InvalidArgumentType, InvalidDescriptor
from ...quoting import shown
from ..dialects.openvino import (
    CAST_DTYPES,
    DIALECT,
    OpenVINOCeiling,
    OpenVINOConvert,
    OpenVINOConvertDescriptor,
    OpenVINODescriptor,
    OpenVINOFloor,
    OpenVINOFloorDescriptor,
    OpenVINORound,
)
from .sources import only, read_file, refuse_name

T = TypeVar("T")

#: The longest text, in characters or bytes. Models of the largest networks have some 20 MiB.
MAX_LENGTH = 64 << 20
#: Precisions whose IR name, in lower case, is not the operation specification's name.
_PRECISIONS = {
    **{"FP16": "f16", "BF16": "bf16", "FP32": "f32", "FP64": "f64"},
    **{"BIN": "u1", "BOOL": "boolean"},
}
#: Decimal digits of a dimension: 2^63-1 has 19.
_MAX_DIGITS = 19


def from_openvino(
    layer: str
    | bytes
    | os.PathLike[str]
    | ElementTree.Element
    | ElementTree.ElementTree[ElementTree.Element],
    *,
    name: str | None = None,
) -> OpenVINORound | OpenVINOFloor | OpenVINOCeiling | OpenVINOConvert:
    """Read the operator and the tensor of a Round, Floor, Ceiling or Convert in an OpenVINO IR.

    ``layer`` is a ``<layer>`` or a model (``<net>``): XML as text or bytes, an element of
    ``xml.etree``, or the path of a file (a ``str`` without ``<``). ``name`` chooses one of several
    layers; without it, a Round is chosen if it is the only one. If a port has no type or shape, or
    a dynamic one, pass it to ``.descriptor()``.

    Raises :class:`InvalidDescriptor` for anything but a valid layer of these, and for XML with a
    document type declaration or over 64 MiB; :class:`InvalidArgument` for an unreadable file.
    """
    root = _parsed(layer)
    if root.tag == "net":
        found = (each for each in root.iter("layer") if each.get("type") in _TYPES)
        named = [(each.get("name", ""), each) for each in found]
        root = only(named, name, ("layers",), "openvino", lambda each: each.get("type") == "Round")
    elif root.tag == "layer":
        refuse_name(name)
    else:
        raise _refusal(
            (), f"must be one layer, {' or '.join(_TYPES)}, or a net, got {shown(root.tag)}"
        )
    data = [child.attrib for child in root.findall("data")]
    if len(data) > 1:
        raise _refusal(("data",), f"a layer has one data at most, got {len(data)}")
    types, shapes = zip(*(_port(root, side) for side in ("input", "output")), strict=True)
    is_convert = root.get("type") == "Convert"
    element_type = types[0] if is_convert else _agreed(types, "precision")
    shape = _agreed(shapes, "dim")
    attributes = dict(data[0]) if data else {}
    if is_convert and types[1] is not None:
        target = attributes.setdefault("destination_type", types[1])
        _agreed((target, types[1]), "precision", "destination_type")
    stated = cast(
        OpenVINODescriptor | OpenVINOFloorDescriptor | OpenVINOConvertDescriptor,
        DIALECT.read(
            {
                **{key: root.attrib[key] for key in ("type", "version") if key in root.attrib},
                **({"data": attributes} if attributes else {}),
                "input": {
                    "element_type": element_type or "f32",
                    "shape": [] if shape is None else shape,
                },
            }
        ),
    )
    made = cast(
        OpenVINORound | OpenVINOFloor | OpenVINOCeiling | OpenVINOConvert,
        DIALECT.operator_of(stated).object.of(stated),
    )
    dtype = element_type and CAST_DTYPES[element_type]
    return replace(made, dtype=cast(DTypeName | None, dtype), shape=shape)


#: The types of layers that are read.
_TYPES = tuple(operator.name for operator in DIALECT.operators)


class _Builder(ElementTree.TreeBuilder):
    def doctype(self, *_: object) -> None:
        """Refuse a document type declaration."""
        raise _refusal((), "the XML must not have a document type")


def _parsed(layer: object) -> ElementTree.Element:
    """The root element of what a caller gave."""
    if isinstance(layer, ElementTree.ElementTree):
        layer = layer.getroot()
    if isinstance(layer, ElementTree.Element):
        return layer
    if isinstance(layer, str) and layer and "<" not in layer:
        layer = Path(layer)
    if isinstance(layer, os.PathLike):
        layer = read_file(Path(layer), MAX_LENGTH)
    if not isinstance(layer, str | bytes):
        raise InvalidArgumentType(
            "the layer must be a path, XML as str or bytes, or an Element of xml.etree, "
            f"got {shown(layer)}"
        )
    if len(layer) > MAX_LENGTH:
        raise _refusal((), f"a model must have at most {MAX_LENGTH} bytes")
    # Text is UTF-8 here, whatever it declares. An unpaired surrogate is not, and is refused.
    encoding = "utf-8" if isinstance(layer, str) else None
    text = layer.encode("utf-8", "surrogatepass") if isinstance(layer, str) else layer
    try:
        parser = ElementTree.XMLParser(target=_Builder(), encoding=encoding)
        parser.feed(text)
        return parser.close()
    except ElementTree.ParseError as error:
        raise _refusal((), f"not XML: {error}") from None
    except (LookupError, ValueError):
        raise _refusal((), "the XML is of an unknown encoding") from None


def _port(layer: ElementTree.Element, side: str) -> tuple[str | None, tuple[int, ...] | None]:
    """The type and the shape that a side's only port states; None for one that it does not."""
    if layer.find(side) is None:
        return None, None
    ports = layer.findall(f"{side}/port")
    if len(ports) != 1:
        raise _refusal((side,), f"the layer has exactly one port here, got {len(ports)}")
    precision = ports[0].get("precision")
    sizes = [
        _size((dim.text or "").strip(), (side, "port", "dim", position))
        for position, dim in enumerate(ports[0].findall("dim"))
    ]
    static = tuple(size for size in sizes if size is not None)
    element_type = precision and _PRECISIONS.get(precision, precision.lower())
    return element_type, static if len(static) == len(sizes) else None


def _size(text: str, loc: tuple[str | int, ...]) -> int | None:
    """The size of a dimension; None for a dynamic one, -1."""
    if text == "-1":
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS):
        raise _refusal(loc, f"must be an integer of at least 0, or -1, got {shown(text)}")
    return int(text)


def _agreed(stated: Iterable[T | None], what: str, other: str = "input's") -> T | None:
    """The value that all ports agree on, as far as they state one."""
    values = set(stated) - {None}
    if len(values) > 1:
        raise _refusal(("output", "port", what), f"must equal the {other}")
    return next(iter(values), None)


def _refusal(loc: tuple[str | int, ...], rule: str) -> InvalidDescriptor:
    return InvalidDescriptor.at(loc, f"openvino: {rule}")
