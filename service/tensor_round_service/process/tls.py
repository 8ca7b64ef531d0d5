"""TLS: the service's certificate, client certificates, and timeouts."""

from __future__ import annotations

import logging
import ssl
from functools import partial
from pathlib import Path
from typing import Any

from ..failures import CannotStart
from ..settings import Settings
from ..watched_file import WatchedFile
from .certificates import expiry, warning

logger = logging.getLogger(__name__)

#: The suites of TLS 1.2: authenticated encryption with forward secrecy, as all of TLS 1.3 are.
CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"
_NOT_TLS = b"This port serves HTTPS only: use https:// in place of http://.\n"
#: What OpenSSL calls the usual requests without TLS, and the response to each.
_PLAIN_REASONS = frozenset({"HTTP_REQUEST", "HTTPS_PROXY_REQUEST"})
_PLAIN_RESPONSE = (
    b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\n"
    b"Content-Length: %d\r\nConnection: close\r\n\r\n%b" % (len(_NOT_TLS), _NOT_TLS)
)
#: Timeout of the TLS shutdown: for the rest of a response and the peer's close_notify.
SHUTDOWN_SECONDS = 5.0


class CertificateError(CannotStart):
    """A file in the TLS settings is unusable; the message names it and says why."""


class ServerTLS:
    """The TLS of a service, whose files can be read again while it serves.

    Each reading makes a new context, for new servers. Loading the files into the context in use
    would not do: a key that does not fit would leave it without any, an authority, once loaded,
    stays, and clients could resume sessions that the new files would not allow.

    Raises :class:`CertificateError`.
    """

    def __init__(self, settings: Settings, alpn: str | None = None) -> None:
        assert settings.ssl_certfile is not None
        self._settings = settings
        files = settings.ssl_certfile, settings.ssl_keyfile, settings.ssl_ca_certs
        self._files = [WatchedFile(file) for file in files if file is not None]
        self._read = partial(server_context, *files, alpn=alpn)
        self._context = self._read()
        #: When the first certificate of the chain expires, in Unix time.
        self.expiry = self._expiry()

    @property
    def options(self) -> dict[str, Any]:
        """Options of the event loop's servers.

        The default timeouts are 60 s and 30 s. Silent clients would use a connection that long
        without any protocol that could limit them, and would delay the end of the service.
        """
        return {
            "ssl": self._context,
            "ssl_handshake_timeout": self._settings.receive_timeout,
            "ssl_shutdown_timeout": SHUTDOWN_SECONDS,
        }

    def has_changed(self) -> bool:
        """Whether one of the files has; each is polled at most twice a second."""
        changed = [file.has_changed() for file in self._files]
        return any(changed)

    def reload(self) -> bool:
        """Read the files again; if one is unusable, log that, change nothing, return False."""
        for file in self._files:
            file.read()
        try:
            self._context = self._read()
        except CertificateError as error:
            logger.error("TLS: %s; the previous certificate stays in effect", error)
            return False
        path, self.expiry = self._files[0].path, self._expiry()
        logger.info("TLS: reloaded the certificate from %s", path)
        if sentence := warning(path, self.expiry):
            logger.warning(sentence)
        return True

    def _expiry(self) -> int | None:
        content = self._files[0].content
        return expiry(content) if isinstance(content, bytes) else None


class _Handshake(ssl.SSLObject):
    """The TLS of one connection; it responds to a request without TLS in text."""

    _bios: tuple[ssl.MemoryBIO, ssl.MemoryBIO]
    _has_responded = False

    def do_handshake(self) -> None:
        """Continue the handshake. It fails after a response, but no sooner: that is to be sent."""
        try:
            super().do_handshake()
        except ssl.SSLError as error:
            incoming, outgoing = self._bios
            is_plain = error.reason in _PLAIN_REASONS or b" HTTP/" in incoming.read()
            if self._has_responded or not is_plain:
                raise
            self._has_responded = True
            outgoing.write(_PLAIN_RESPONSE)
            raise ssl.SSLWantReadError from None


class _Context(ssl.SSLContext):
    sslobject_class = _Handshake

    def wrap_bio(
        self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, *args: Any, **options: Any
    ) -> ssl.SSLObject:
        made = super().wrap_bio(incoming, outgoing, *args, **options)
        assert isinstance(made, _Handshake)
        made._bios = incoming, outgoing
        return made


def server_context(
    certfile: Path,
    keyfile: Path | None = None,
    ca_certs: Path | None = None,
    *,
    alpn: str | None = None,
) -> ssl.SSLContext:
    """A context with TLS 1.2 and 1.3, and suites with authenticated encryption and forward secrecy.

    With ``ca_certs``, the handshake fails for clients without a certificate of one of these
    authorities. A client that offers ``alpn`` gets that protocol. Raises
    :class:`CertificateError`.
    """
    context = _Context(ssl.PROTOCOL_TLS_SERVER)
    context.verify_flags = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).verify_flags
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(CIPHERS)
    # The first that the client offers, too, is chosen.
    context.set_alpn_protocols([*([] if alpn is None else [alpn]), "http/1.1"])
    try:
        context.load_cert_chain(certfile, keyfile, password=_no_password)
    except (OSError, ValueError) as error:
        name = certfile if keyfile is None else f"{certfile} and {keyfile}"
        raise CertificateError(f"no certificate and key in {name}: {_reason(error)}") from None
    if ca_certs is not None:
        try:
            context.load_verify_locations(cafile=ca_certs)
        except OSError as error:
            raise CertificateError(f"no certificates in {ca_certs}: {_reason(error)}") from None
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def _no_password() -> str:
    # Without a callback, OpenSSL would prompt on the terminal.
    raise ValueError("the key is encrypted; store it decrypted, readable for the service only")


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return (error.reason or "is not PEM").lower().replace("_", " ")
    return getattr(error, "strerror", None) or str(error)
