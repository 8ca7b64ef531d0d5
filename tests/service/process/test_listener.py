"""Addresses that can be bound, and why others cannot; sockets of the dead and of the living."""

from __future__ import annotations

import copy
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tensor_round_service.process.listener import CannotListen, Listener
from tensor_round_service.settings import Settings


def listen(**settings: object) -> Listener:
    return Listener(Settings.model_validate({"port": 0, **settings}))


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """With a file, and a socket at which somebody listens."""
    tmp_path.joinpath("file").write_text("not a socket")
    with socket.socket(socket.AF_UNIX) as live:
        live.bind(str(tmp_path / "live"))
        live.listen()
        yield tmp_path
    assert tmp_path.joinpath("file").read_text() == "not a socket"
    assert tmp_path.joinpath("live").is_socket()


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("live", "another service listens on it"),
        ("file", "the path is a file that is not a socket"),
        ("none/socket", "no such file or directory"),
        ("file/socket", "not a directory"),
        ("long" * 40, "af_unix path too long"),
    ],
)
def test_a_path_that_cannot_be_bound(folder: Path, name: str, reason: str) -> None:
    with pytest.raises(CannotListen) as refused:
        listen(uds=folder / name)
    assert str(refused.value) == f"cannot listen on {folder / name}: {reason}"


def test_a_path_that_cannot_be_written() -> None:
    with pytest.raises(CannotListen, match=r"^cannot listen on /proc/socket: \w"):
        listen(uds=Path("/proc/socket"))


def test_a_port_in_use() -> None:
    with listen() as first:
        port = first.sockets[0].getsockname()[1]
        assert first.name == f"http://127.0.0.1:{port}"
        with pytest.raises(CannotListen) as refused:
            listen(port=port)
    assert str(refused.value) == f"cannot listen on 127.0.0.1:{port}: address already in use"
    listen(port=port).close()


def test_a_host_that_is_not_this_one() -> None:
    with pytest.raises(CannotListen, match=r"192\.0\.2\.1:0: cannot assign requested address"):
        listen(host="192.0.2.1")
    with pytest.raises(CannotListen, match=r"cannot listen on no-such\.invalid:0: "):
        listen(host="no-such.invalid")


def test_a_name_is_bound_at_all_its_addresses() -> None:
    with listen(host="localhost") as listener:
        found = socket.getaddrinfo("localhost", 0, type=socket.SOCK_STREAM)
        assert {plug.family for plug in listener.sockets} == {entry[0] for entry in found}
        assert len({plug.getsockname()[1] for plug in listener.sockets}) == 1


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this machine has no IPv6")
def test_every_address_of_both_kinds() -> None:
    with listen(host="::") as listener:
        port = listener.sockets[0].getsockname()[1]
        assert listener.name == f"http://[::]:{port}"
        socket.create_connection(("127.0.0.1", port)).close()


def test_a_dead_ones_path_is_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
        dead.listen()
    assert path.is_socket()
    with listen(uds=path) as listener, socket.socket(socket.AF_UNIX) as plug:
        assert listener.name == f"unix socket {path}"
        plug.connect(str(path))
    assert not path.exists()


def test_a_closed_listener_leaves_its_successors_path_alone(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    first = listen(uds=path)
    first.close()
    with listen(uds=path):
        first.close()
        assert path.is_socket()


def test_a_workers_copy_does_not_remove_the_path(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    with listen(uds=path) as listener:
        copied = copy.copy(listener)
        copied.sockets = []
        copied.close()
        assert path.is_socket()
