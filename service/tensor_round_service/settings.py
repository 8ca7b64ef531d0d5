"""All settings: names, types, defaults and help."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal

from pydantic import ByteSize, Field, ValidationInfo, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from tensor_round.contract.quoting import shown

from .engine.engine import MAX_TENSOR_BYTES
from .net.forwarded import TrustedProxies

PREFIX = "TENSOR_ROUND_"
#: An origin as browsers send it: scheme, host and a non-default port, in lower case.
_ORIGIN = re.compile(
    r"(?!http://[^/]*:80$|https://[^/]*:443$)"
    r"[a-z][a-z0-9+.-]*://([a-z0-9._-]+|\[[0-9a-f:.]+\])(:\d+)?"
)
_HOST = re.compile(r"[\w.-]*|\[[\w:.]+\]")


class Settings(BaseSettings):
    """An exact tensor-rounding service over HTTP.

    Each option has an environment variable, TENSOR_ROUND_ and its name in capitals:
    --max-tensor-bytes is TENSOR_ROUND_MAX_TENSOR_BYTES. An option overrides its
    variable. A size is a number of bytes, or has a unit: 64MiB, 1GiB.

    """

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        frozen=True,
        cli_kebab_case=True,
        cli_hide_none_type=True,
        use_attribute_docstrings=True,
    )

    host: str = "127.0.0.1"
    """Address to listen on; 0.0.0.0 means all addresses."""
    port: Annotated[int, Field(ge=0, le=65535)] = 8000
    """Port to listen on; 0 chooses a free one."""
    uds: Path | None = None
    """Path of a Unix socket to listen on, instead of host and port."""
    workers: Annotated[int, Field(ge=1)] = 1
    """Number of processes that serve the same port."""
    backend: Literal["auto", "numpy", "cupy"] = "auto"
    """Backend that rounds. auto uses a GPU if a usable one is present; the start fails with
    cupy if there is none."""
    devices: Annotated[str, Field(pattern=r"^(all|\d+(,\d+)*)$")] = "all"
    """Numbers of the GPUs to use in turn, as in 0,1, or all."""
    gpu_min_bytes: ByteSize | None = None
    """Smallest tensor to round on the GPU; NumPy rounds smaller ones. If not set, BACKEND=auto
    measures it at start, and BACKEND=cupy rounds all on the GPU."""
    gpu_memory_limit: ByteSize | None = None
    """Memory limit of each worker on each GPU; half of the GPU's memory if not set."""
    max_tensor_bytes: Annotated[ByteSize, Field(ge=0)] = ByteSize(MAX_TENSOR_BYTES)
    """Largest input or output tensor; a larger one gets 413."""
    max_bytes_in_flight: Annotated[ByteSize, Field(gt=0)] | None = None
    """Memory budget of all requests together, for inputs and outputs; a request beyond it gets
    503. A sixteenth of it is kept for requests of up to 1 MiB. Workers share it equally. Half of
    the memory limit if not set."""
    receive_timeout: Annotated[float, Field(gt=0)] = 10.0
    """Seconds to receive a request head, and grace period of MIN_RECEIVE_RATE and
    MIN_SEND_RATE."""
    min_receive_rate: Annotated[int, Field(ge=0)] = 64 << 10
    """Minimum rate of a request body in bytes a second; a slower one gets 408."""
    min_send_rate: Annotated[int, Field(ge=0)] = 64 << 10
    """Minimum rate in bytes a second at which a client must read a response; the connection of
    a slower one is aborted."""
    keep_alive: Annotated[float, Field(gt=0)] = 75.0
    """Seconds after which an idle connection is closed; at most 5 while connections take more
    than half of the file descriptors. Set more than the idle timeout of a proxy or balancer in
    front."""
    api_keys_file: Path | None = None
    """File of API keys, one a line: SHA-256 in hex, label, last day. If set, all paths but
    health and the docs page need a key. The service reads it again when it changes."""
    allowed_hosts: str | None = None
    """Comma-separated host names that a request may be for, besides IP addresses and localhost;
    other names get 421. Default: on a loopback address no further names, on any other address
    all."""
    cors_origins: str | None = None
    """Comma-separated origins whose pages may read responses and request changes, as in
    https://app.example,http://localhost:5173 (CORS). If not set, only the service's own."""
    metrics_port: Annotated[int | None, Field(ge=0, le=65535)] = None
    """Port of HOST that serves /metrics, /livez and /readyz alone, without TLS and keys; 0 chooses
    a free one. If not set, /metrics is on PORT, and needs a key if others do."""
    log_format: Literal["console", "json"] = "console"
    """Format of the log: text, or one JSON object a line."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Minimum level of log messages."""
    access_log: bool = False
    """Log a line for each request, refused and abandoned ones too, without payloads and keys."""
    access_log_probes: bool = True
    """Whether the access log has lines for probes and /metrics that got 200; it always has others,
    such as 503."""
    forwarded_allow_ips: str | None = None
    """Comma-separated addresses and networks of proxies, as in 10.0.0.0/8,::1. Their
    X-Forwarded-For or Forwarded names the caller for the access log and traces. unix: means the
    peers of a Unix socket, * every peer. If not set, nobody's counts."""
    ssl_certfile: Path | None = None
    """Certificate chain, PEM; if set, the service accepts only TLS. The service reads the files of
    TLS again when they change."""
    ssl_keyfile: Path | None = None
    """Private key of the certificate, PEM, if it is in another file."""
    ssl_ca_certs: Path | None = None
    """Certificate authorities, PEM; if set, clients need a certificate of one."""
    shared_memory_prefix: str | None = None
    """If set, clients on this machine may register POSIX shared memory whose name has this
    prefix (the Open Inference Protocol's system shared memory)."""
    cuda_shared_memory: bool = False
    """Whether clients on this machine may register GPU memory by its CUDA IPC handle (the Open
    Inference Protocol's CUDA shared memory)."""
    grpc: bool = True
    """Whether clients may speak gRPC on the same port (the other half of the Open Inference
    Protocol): over cleartext without an upgrade, over TLS by ALPN."""
    drain_delay: Annotated[float, Field(ge=0)] = 0.0
    """Seconds to continue serving after SIGTERM while /readyz responds 503, so that load
    balancers notice."""
    drain_timeout: Annotated[float, Field(ge=0)] = 30.0
    """Seconds after DRAIN_DELAY in which current requests may finish."""

    @property
    def device_numbers(self) -> tuple[int, ...] | None:
        """The GPUs to use; None for all."""
        return None if self.devices == "all" else tuple(map(int, self.devices.split(",")))

    @property
    def listed_origins(self) -> list[str]:
        """The origins of CORS_ORIGINS."""
        origins = (origin.strip() for origin in (self.cors_origins or "").split(","))
        return list(filter(None, origins))

    @field_validator("ssl_keyfile", "ssl_ca_certs")
    @classmethod
    def _needs_certificate(cls, value: Path | None, info: ValidationInfo) -> Path | None:
        # Ignoring them would start a service without the protection that was asked for.
        if value is not None and info.data.get("ssl_certfile") is None:
            raise ValueError(f"needs {PREFIX}SSL_CERTFILE")
        return value

    @field_validator("allowed_hosts")
    @classmethod
    def _has_names(cls, value: str | None) -> str | None:
        # A URL or a port would match no request's host.
        for name in (value or "").split(","):
            if not _HOST.fullmatch(name.strip()):
                raise ValueError(f"must be names, as in x.example, got {shown(name.strip())}")
        return value

    @field_validator("cors_origins")
    @classmethod
    def _has_origins(cls, value: str | None) -> str | None:
        # Origins are compared as text: a path or a default port would match no page.
        for origin in filter(None, map(str.strip, (value or "").split(","))):
            if not _ORIGIN.fullmatch(origin):
                raise ValueError(
                    "must be origins as browsers send them, as in https://app.example or "
                    f"http://localhost:5173, got {shown(origin)}"
                )
        return value

    @field_validator("forwarded_allow_ips")
    @classmethod
    def _names_proxies(cls, value: str | None) -> str | None:
        # What is no address would trust nobody.
        for word in value.split(",") if value else ():
            try:
                TrustedProxies(word)
            except ValueError:
                raise ValueError(
                    "must be addresses or networks, as in 10.0.0.0/8, unix: or *, got "
                    f"{shown(word.strip())}"
                ) from None
        return value

    @field_validator("shared_memory_prefix")
    @classmethod
    def _is_a_name(cls, value: str | None) -> str | None:
        name = (value or "").removeprefix("/")
        if "/" in name:
            raise ValueError("must contain no slash except a leading one")
        return name or None
