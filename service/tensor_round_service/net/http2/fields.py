"""Header blocks (HPACK, RFC 7541): decoded with their table, encoded without one."""

from __future__ import annotations

import re

from . import huffman
from .frames import Code
from .limits import ConnectionFault

Field = tuple[bytes, bytes]

#: The size of a table before anything is said about it, in bytes.
TABLE_BYTES = 4096
#: What a field counts beside its name and value (section 4.1; RFC 9113, section 6.5.2).
FIELD_BYTES = 32
#: The most bits of an integer beside its prefix: no length or index is larger.
_MAX_SHIFT = 21

#: Appendix A: names, each with its values; the first field has index 1.
_STATIC_TEXT = """
:authority|:method GET POST|:path / /index.html|:scheme http https
:status 200 204 206 304 400 404 500|accept-charset|accept-encoding gzip,~deflate|accept-language
accept-ranges|accept|access-control-allow-origin|age|allow|authorization|cache-control
content-disposition|content-encoding|content-language|content-length|content-location
content-range|content-type|cookie|date|etag|expect|expires|from|host|if-match
if-modified-since|if-none-match|if-range|if-unmodified-since|last-modified|link|location
max-forwards|proxy-authenticate|proxy-authorization|range|referer|refresh|retry-after|server
set-cookie|strict-transport-security|transfer-encoding|user-agent|vary|via|www-authenticate
"""


def _static() -> list[Field]:
    fields = [(b"", b"")]
    for entry in _STATIC_TEXT.encode().strip().replace(b"\n", b"|").split(b"|"):
        name, *values = entry.split(b" ")
        fields += [(name, value.replace(b"~", b" ")) for value in values or [b""]]
    return fields


STATIC = _static()
_FIRST = len(STATIC)


def _malformed(reason: str) -> ConnectionFault:
    """The bytes are not a header block; the table is lost, and with it the connection."""
    return ConnectionFault(Code.COMPRESSION_ERROR, reason)


#: Fields that have a byte each, their index.
_INDEXED = re.compile(rb"[\x81-\xfe]+")
#: The most sizes of the table at the begin of a block: two would do (section 4.2).
_MAX_SIZES = 16
#: The most fields with text that are passed over behind a list that is full: 2,000 take 5 ms.
_MAX_PASSED = 2000
#: The fields that the refusal of a request depends on, and what is kept of one that a full list has
#: no room for.
_ALWAYS_KEPT = frozenset({b":method", b":scheme", b":path", b":authority", b"content-type"})
_MAX_KEPT = 256


class Decoder:
    """Decodes the header blocks of one connection, one after another.

    A list of fields over ``max_list_bytes`` or ``max_fields`` is cut there, but for the fields that
    its refusal depends on. The rest of the block is read for the table alone.
    """

    def __init__(self, max_list_bytes: int, max_fields: int) -> None:
        self._max_list_bytes = max_list_bytes
        self._max_fields = max_fields
        #: The dynamic table, newest field last.
        self._table: list[Field] = []
        self._used = 0
        self._limit = TABLE_BYTES
        #: Whether the last list was cut.
        self.is_cut = False
        #: Whether the last block has changed the table: the same bytes may say something else then.
        self.has_changed = False

    def decode(self, block: bytes) -> list[Field]:
        """The fields of a block; raises :class:`ConnectionFault`."""
        self.has_changed = False
        try:
            return self._decode(block)
        except IndexError:
            raise _malformed("a header block is cut off, or names no field") from None
        except ValueError:
            raise _malformed("a string is not in the Huffman code") from None

    def _decode(self, block: bytes) -> list[Field]:
        fields: list[Field] = []
        at, end, size, sizes = 0, len(block), 0, 0
        self.is_cut = False
        while at < end:
            byte = block[at]
            if 0x80 < byte < 0xFF:  # most fields: an index without further bytes
                index, at = byte & 0x7F, at + 1
                field = STATIC[index] if index < _FIRST else self._table[_FIRST - 1 - index]
            elif byte & 0x80:
                index, at = _integer(block, at, 0x7F)
                field = self._field(index)
            elif byte & 0xE0 == 0x20:
                sizes += 1
                if fields or sizes > _MAX_SIZES:
                    raise _malformed("a size of the table must come first")
                limit, at = _integer(block, at, 0x1F)
                if limit > TABLE_BYTES:
                    raise _malformed("the table would be larger than it may be")
                self._limit = limit
                self._evict()
                self.has_changed = True
                continue
            else:
                field, at = self._literal(block, at)
            size += len(field[0]) + len(field[1]) + FIELD_BYTES
            if size > self._max_list_bytes or len(fields) == self._max_fields:
                self.is_cut = True
                self._keep(field, fields)
                self._pass(block, at, fields)
                break
            fields.append(field)
        return fields

    def _literal(self, block: bytes, at: int) -> tuple[Field, int]:
        """The field at ``at``, whose value is in the block, and its end."""
        is_added = block[at] & 0x40
        index, at = _integer(block, at, 0x3F if is_added else 0x0F)
        if index:
            name = self._field(index)[0]
        else:
            name, at = _string(block, at)
        value, at = _string(block, at)
        if is_added:
            self._table.append((name, value))
            self._used += len(name) + len(value) + FIELD_BYTES
            self._evict()
            self.has_changed = True
        return (name, value), at

    def _keep(self, field: Field, fields: list[Field]) -> None:
        """Add a field to a full list, if a refusal depends on it."""
        if field[0] in _ALWAYS_KEPT and len(fields) < self._max_fields + len(_ALWAYS_KEPT):
            fields.append((field[0], field[1][:_MAX_KEPT]))

    def _pass(self, block: bytes, at: int, fields: list[Field]) -> None:
        """Read the rest of a block, whose list is full."""
        passed = 0
        while at < len(block):
            if indexed := _INDEXED.match(block, at):
                at = indexed.end()
                for byte in {*indexed[0]}:
                    self._keep(self._field(byte & 0x7F), fields)
                continue
            passed += 1
            if passed > _MAX_PASSED:
                excess = "a header block has far too many fields"
                raise ConnectionFault(Code.ENHANCE_YOUR_CALM, excess)
            byte = block[at]
            if byte & 0x80:
                index, at = _integer(block, at, 0x7F)
                self._keep(self._field(index), fields)
            elif byte & 0xE0 == 0x20:
                raise _malformed("a size of the table must come first")
            elif byte & 0x40:
                field, at = self._literal(block, at)
                self._keep(field, fields)
            else:  # the table does not get it: what is long need not be decoded
                index, value = _integer(block, at, 0x0F)
                end = _span(block, value if index else _span(block, value)[1])[1]
                if end - at <= _MAX_KEPT:
                    self._keep(self._literal(block, at)[0], fields)
                at = end

    def _field(self, index: int) -> Field:
        if not index:
            raise _malformed("there is no field 0")
        return STATIC[index] if index < _FIRST else self._table[_FIRST - 1 - index]

    def _evict(self) -> None:
        """Remove the oldest fields until the rest is within the limit."""
        while self._used > self._limit:
            name, value = self._table.pop(0)
            self._used -= len(name) + len(value) + FIELD_BYTES


def _integer(block: bytes, at: int, mask: int) -> tuple[int, int]:
    """The integer at ``at``, whose prefix is what ``mask`` leaves of the first byte; its end."""
    value, at = block[at] & mask, at + 1
    if value < mask:
        return value, at
    shift = 0
    while True:
        byte, at = block[at], at + 1
        value += (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > _MAX_SHIFT:
            raise _malformed("an integer is too long")


def _string(block: bytes, at: int) -> tuple[bytes, int]:
    begin, end = _span(block, at)
    raw = block[begin:end]
    return (huffman.decode(raw) if block[at] & 0x80 else raw), end


def _span(block: bytes, at: int) -> tuple[int, int]:
    """Where the bytes of the string at ``at`` begin and end."""
    length, begin = _integer(block, at, 0x7F)
    if begin + length > len(block):
        raise IndexError
    return begin, begin + length


def sevens(value: int) -> bytes:
    """A number in groups of seven bits, the lowest first; all but the last have the eighth bit."""
    groups = bytearray()
    while value > 0x7F:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    groups.append(value)
    return bytes(groups)


def _length(length: int) -> bytes:
    """The length of a string that is not Huffman-coded."""
    return bytes((length,)) if length < 0x7F else b"\x7f" + sevens(length - 0x7F)


def encoded(*fields: Field) -> bytes:
    """A header block of literal fields: without a table the same bytes always say the same."""
    block = b""
    for name, value in fields:
        if len(name) < 0x7F > len(value):
            block += b"\x00%c%b%c%b" % (len(name), name, len(value), value)
        else:
            block += b"\x00%b%b%b%b" % (_length(len(name)), name, _length(len(value)), value)
    return block
