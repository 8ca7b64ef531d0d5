"""When certificates expire. Python's ssl tells that of a peer's certificate alone."""

from __future__ import annotations

import re
import ssl
import time
from datetime import UTC, datetime
from pathlib import Path

#: The time left from which on a certificate is worth a warning.
WARNING_SECONDS = 7 * 86400

_PEM = re.compile(rb"-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----")
#: Tags of ASN.1: the version of a certificate, and a time whose year has two digits.
_VERSION, _UTC_TIME = 0xA0, 0x17


def expiry(content: bytes) -> int | None:
    """When the first certificate of a chain in PEM expires, in Unix time; None if none is found."""
    found = [_expiry(ssl.PEM_cert_to_DER_cert(text.decode())) for text in _PEM.findall(content)]
    return min(found, default=None)


def warning(path: Path, moment: int | None, now: float | None = None) -> str | None:
    """A sentence on a certificate that has expired or is about to."""
    now = time.time() if now is None else now
    if moment is None or moment - now > WARNING_SECONDS:
        return None
    day = f"{datetime.fromtimestamp(moment, UTC):%Y-%m-%d %H:%M} UTC"
    if moment <= now:
        return f"TLS: the certificate in {path} expired at {day}: clients refuse it; renew it"
    return f"TLS: the certificate in {path} expires at {day}, in less than 7 days; renew it"


def _expiry(der: bytes) -> int:
    """That of one certificate (RFC 5280, section 4.1)."""
    _, at, _ = _element(der, 0)  # Certificate
    _, at, _ = _element(der, at)  # tbsCertificate
    tag, _, end = _element(der, at)
    if tag == _VERSION:
        at = end
    for _ in range(3):  # serialNumber, signature, issuer
        _, _, at = _element(der, at)
    _, at, _ = _element(der, at)  # validity
    _, _, at = _element(der, at)  # notBefore
    tag, at, end = _element(der, at)
    text = der[at:end].decode()
    if tag == _UTC_TIME:
        text = ("19" if text >= "5" else "20") + text
    return int(datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC).timestamp())


def _element(der: bytes, at: int) -> tuple[int, int, int]:
    """The tag of the element at a place, and where its content begins and ends."""
    tag, length, at = der[at], der[at + 1], at + 2
    if length > 0x7F:
        count = length & 0x7F
        length, at = int.from_bytes(der[at : at + count]), at + count
    return tag, at, at + length
