"""Every setting, once: its environment variable, option, default and help."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal

from pydantic import ByteSize, Field, ValidationInfo, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from tensor_round.quoting import shown

from .engine.engine import MAX_TENSOR_BYTES

PREFIX = "TENSOR_ROUND_"
#: As browsers send it: a scheme, a host and a port that is not the scheme's own, in lower case.
_ORIGIN = re.compile(
    r"(?!http://[^/]*:80$|https://[^/]*:443$)"
    r"[a-z][a-z0-9+.-]*://([a-z0-9._-]+|\[[0-9a-f:.]+\])(:\d+)?"
)
_HOST = re.compile(r"[\w.-]*|\[[\w:.]+\]")


class Settings(BaseSettings):
    """An exact tensor-rounding service over HTTP.

    Each option can also be set in the environment, as TENSOR_ROUND_ and its name in
    capitals: --max-tensor-bytes is TENSOR_ROUND_MAX_TENSOR_BYTES. An option wins over
    the environment. Sizes are bytes, or take a unit: 64MiB, 1GiB.
    """

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        frozen=True,
        cli_kebab_case=True,
        cli_hide_none_type=True,
    )

    host: Annotated[str, Field(description="Address to listen on; 0.0.0.0 is every one.")] = (
        "127.0.0.1"
    )
    port: Annotated[int, Field(ge=0, le=65535, description="Port to listen on; 0 picks one.")] = (
        8000
    )
    uds: Annotated[
        Path | None, Field(description="Unix socket to listen on, instead of host and port.")
    ] = None
    workers: Annotated[int, Field(ge=1, description="Processes that serve the same port.")] = 1
    backend: Annotated[
        Literal["auto", "numpy", "cupy"],
        Field(
            description="Where rounding happens. auto takes the GPU if there is a usable one; "
            "cupy fails at start if there is none."
        ),
    ] = "auto"
    devices: Annotated[
        str,
        Field(
            pattern=r"^(all|\d+(,\d+)*)$",
            description="GPUs that take turns, by their numbers: 0,1 or all.",
        ),
    ] = "all"
    gpu_min_bytes: Annotated[
        ByteSize | None,
        Field(
            description="Smallest tensor for the GPU; smaller ones are NumPy's. If not given, "
            "BACKEND=auto measures at start for what it is worth, and cupy gives it everything."
        ),
    ] = None
    gpu_memory_limit: Annotated[
        ByteSize | None,
        Field(
            description="Most memory to take of each GPU, by each worker; half of it if not given."
        ),
    ] = None
    max_tensor_bytes: Annotated[
        ByteSize, Field(ge=0, description="Largest tensor, in or out; larger ones get 413.")
    ] = ByteSize(MAX_TENSOR_BYTES)
    max_bytes_in_flight: Annotated[
        ByteSize | None,
        Field(
            description="Bytes that all requests may hold together, inputs and outputs; beyond "
            "them 503. Workers share it equally. Half of the memory limit if not given."
        ),
    ] = None
    receive_timeout: Annotated[
        float,
        Field(
            gt=0,
            description="Seconds to send a head in, and of grace before MIN_RECEIVE_RATE and "
            "MIN_SEND_RATE hold.",
        ),
    ] = 10.0
    min_receive_rate: Annotated[
        int,
        Field(ge=0, description="Bytes a second that a body must come at; slower ones get 408."),
    ] = 64 << 10
    min_send_rate: Annotated[
        int,
        Field(
            ge=0,
            description="Bytes a second that an answer must be taken at; slower takers are cut "
            "off.",
        ),
    ] = 64 << 10
    api_keys_file: Annotated[
        Path | None,
        Field(
            description="File of API keys, a line each: SHA-256 in hex, label, last day. With it "
            "all but health and the page's own files need a key; it is read again when it changes."
        ),
    ] = None
    allowed_hosts: Annotated[
        str | None,
        Field(
            description="Names that a request's Host may have besides IP addresses and localhost, "
            "with commas between; others get 421. If not given: none on a loopback address, else "
            "any."
        ),
    ] = None
    cors_origins: Annotated[
        str | None,
        Field(
            description="Origins whose pages may read responses and ask for changes, with commas "
            "between, as in https://app.example,http://localhost:5173 (CORS). If not given, none "
            "but the service's own."
        ),
    ] = None
    ssl_certfile: Annotated[
        Path | None, Field(description="Certificate chain, PEM; with it TLS alone is spoken.")
    ] = None
    ssl_keyfile: Annotated[
        Path | None, Field(description="The certificate's key, PEM, if it is in another file.")
    ] = None
    ssl_ca_certs: Annotated[
        Path | None,
        Field(description="Authorities, PEM; callers then need a certificate of one of them."),
    ] = None
    shared_memory_prefix: Annotated[
        str | None,
        Field(
            description="With it, clients on this machine may register POSIX shared memory whose "
            "names begin so (the Open Inference Protocol's system shared memory)."
        ),
    ] = None
    cuda_shared_memory: Annotated[
        bool,
        Field(
            description="Clients on this machine may register memory of a GPU by its CUDA IPC "
            "handle (the Open Inference Protocol's CUDA shared memory)."
        ),
    ] = False
    drain_delay: Annotated[
        float,
        Field(
            ge=0,
            description="Seconds to go on serving after SIGTERM, with readyz saying 503, until "
            "balancers have looked elsewhere.",
        ),
    ] = 0.0
    drain_timeout: Annotated[
        float,
        Field(ge=0, description="Seconds that requests under way then have to finish."),
    ] = 30.0

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
        # Passed over, these would leave a service open that was meant to be shut.
        if value is not None and info.data.get("ssl_certfile") is None:
            raise ValueError(f"means nothing without {PREFIX}SSL_CERTFILE")
        return value

    @field_validator("allowed_hosts")
    @classmethod
    def _has_names(cls, value: str | None) -> str | None:
        # A URL or a port would be in no request's host, and the name be refused for ever.
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

    @field_validator("shared_memory_prefix")
    @classmethod
    def _is_a_name(cls, value: str | None) -> str | None:
        name = (value or "").removeprefix("/")
        if "/" in name:
            raise ValueError("names of shared memory hold no slash but a first one")
        return name or None
