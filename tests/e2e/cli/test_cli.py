"""The command line as people call it: files, pipes, exit codes, messages."""

from __future__ import annotations

import json
import os
import resource
import ssl
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import support
from support.cases.array_cases import bits, expected_bits, patterns
from support.http.proxy import Fault, Proxy
from support.services.server import Service
from tensor_round.dtypes import BY_NAME

CERTIFICATES = Path(support.__path__[0]) / "certificates"


def command(
    *arguments: object, url: str | None = None, given: bytes = b"", **environment: str
) -> subprocess.CompletedProcess[bytes]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("TENSOR_ROUND")}
    if url is not None:
        environment["TENSOR_ROUND_URL"] = url
    return subprocess.run(
        [sys.executable, "-m", "tensor_round", *map(str, arguments)],
        input=given,
        capture_output=True,
        env={**kept, "COLUMNS": "200", "NO_COLOR": "1", **environment},
        timeout=60,
    )


def good(*arguments: object, **options: Any) -> subprocess.CompletedProcess[bytes]:
    done = command(*arguments, **options)
    assert done.returncode == 0, done.stderr.decode()
    return done


def bad(code: int, why: str, *arguments: object, **options: Any) -> str:
    done = command(*arguments, **options)
    errors = done.stderr.decode()
    assert done.returncode == code, (done.returncode, errors)
    assert why in " ".join(errors.split()), errors
    assert "Traceback" not in errors
    return errors


FILES = {
    "c-order": lambda x: x,
    "fortran": lambda x: np.asfortranarray(x),
    "big-endian": lambda x: x.astype(x.dtype.newbyteorder(">")),
    "0d": lambda x: x[0, 0].reshape(()),
    "empty": lambda x: x[:0],
}


@pytest.mark.parametrize("make", FILES.values(), ids=FILES)
def test_a_file_becomes_a_file_alike(service: Service, tmp_path: Path, make: Any) -> None:
    x = make(patterns("float32", 60).reshape(6, 10))
    np.save(tmp_path / "in.npy", x)
    good("round", tmp_path / "in.npy", tmp_path / "out.npy", "--rounding", "ties_to_away",
         url=service.url)  # fmt: skip
    y = np.load(tmp_path / "out.npy")
    assert (y.dtype, y.shape, y.flags.f_contiguous) == (x.dtype, x.shape, x.flags.f_contiguous)
    assert np.array_equal(bits(y), expected_bits(x, "ties_to_away"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.npy", "out.npy"]


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_types_that_npy_has_no_name_for(service: Service, tmp_path: Path, dtype: str) -> None:
    x = patterns(dtype, 256)
    np.save(tmp_path / "in.npy", x)
    source, target = tmp_path / "in.npy", tmp_path / "out.npy"
    good("round", source, target, "--dtype", dtype, url=service.url)
    data = target.read_bytes()
    assert data[:128] == source.read_bytes()[:128]
    y = np.frombuffer(data[-x.nbytes :], BY_NAME[dtype].numpy)
    assert np.array_equal(bits(y), expected_bits(x))


def test_the_file_may_be_its_own_target(service: Service, tmp_path: Path) -> None:
    x = patterns("float64", 50)
    np.save(tmp_path / "x.npy", x)
    (tmp_path / "link.npy").symlink_to("x.npy")
    good("round", tmp_path / "x.npy", tmp_path / "link.npy", url=service.url)
    assert (tmp_path / "link.npy").is_symlink()
    assert np.array_equal(bits(np.load(tmp_path / "x.npy")), expected_bits(x))


def test_pipes(service: Service, tmp_path: Path) -> None:
    x = np.asfortranarray(patterns("float16", 60).reshape(6, 10))
    np.save(tmp_path / "in.npy", x)
    done = good("round", "-", "-", "--json", url=service.url,
                given=(tmp_path / "in.npy").read_bytes())  # fmt: skip
    (tmp_path / "out.npy").write_bytes(done.stdout)
    assert np.array_equal(bits(np.load(tmp_path / "out.npy")), expected_bits(x))
    assert json.loads(done.stderr)["output"] == "-"


def test_a_report_as_json(service: Service, tmp_path: Path) -> None:
    np.save(tmp_path / "in.npy", np.zeros((2, 3), "<f2"))
    done = good("round", tmp_path / "in.npy", tmp_path / "out.npy", "--json", "--digest",
                url=service.url)  # fmt: skip
    report = json.loads(done.stdout)
    assert (report["dtype"], report["shape"], report["bytes"]) == ("float16", [2, 3], 12)
    assert report["seconds"] >= 0


def test_a_progress_bar_when_asked_for(service: Service, tmp_path: Path) -> None:
    np.save(tmp_path / "in.npy", np.zeros(1000, "<f4"))
    files = (tmp_path / "in.npy", tmp_path / "out.npy")
    assert b"rounding" in good("round", *files, "--progress", url=service.url).stderr
    assert good("round", *files, url=service.url).stderr == b""


def test_a_file_larger_than_memory_allows(service: Service, tmp_path: Path) -> None:
    """Mapped in and out: private memory may not hold the tensor even once."""
    x = np.lib.format.open_memmap(tmp_path / "in.npy", "w+", "<f4", (80 << 18,))
    x[::1001] = 0.5
    code = (
        "import resource, sys\n"
        "from tensor_round import cli\n"
        "kept = resource.getrlimit(resource.RLIMIT_DATA)[1]\n"
        f"resource.setrlimit(resource.RLIMIT_DATA, ({64 << 20} + used(), kept))\n"
        "cli.main()\n"
    )
    used = (
        "def used():\n"
        "    lines = open('/proc/self/status').read().splitlines()\n"
        "    return next(int(line.split()[1]) << 10 for line in lines if line[:6] == 'VmData')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", used + code, "round", tmp_path / "in.npy", tmp_path / "out.npy"],
        env={**os.environ, "TENSOR_ROUND_URL": service.url},
        capture_output=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr.decode()
    assert not np.load(tmp_path / "out.npy", mmap_mode="r").any()


def test_half_a_file_is_never_left(service: Service, tmp_path: Path) -> None:
    np.save(tmp_path / "in.npy", patterns("float32", 1000))
    (tmp_path / "out.npy").write_bytes(b"what was there")
    with Proxy(service.address, lambda _: Fault(cut_down=2000)) as proxy:
        bad(1, "closed the connection", "round", tmp_path / "in.npy", tmp_path / "out.npy", url=proxy.url)
    assert (tmp_path / "out.npy").read_bytes() == b"what was there"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.npy", "out.npy"]


def test_a_full_disk_is_a_message(service: Service, tmp_path: Path) -> None:
    np.save(tmp_path / "in.npy", np.zeros(1 << 20, "<f4"))
    done = subprocess.run(
        [sys.executable, "-m", "tensor_round", "round", tmp_path / "in.npy", tmp_path / "out.npy"],
        env={**os.environ, "TENSOR_ROUND_URL": service.url, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20)),
        timeout=60,
    )
    assert (done.returncode, b"Traceback" in done.stderr) == (1, False), done.stderr
    assert done.stderr.startswith(b"tensor-round: ")
    assert [path.name for path in tmp_path.iterdir()] == ["in.npy"]


OPERATORS = {
    "ties_to_away": "ties_to_away",
    "onnx": "ties_to_even",
    "onnx:11": "ties_to_even",
    "openvino": "ties_to_even",
    "openvino:half_away_from_zero": "ties_to_away",
    "directml:TOWARD_INFINITY": "ties_to_away",
    "directml:DML_ROUNDING_MODE_TOWARD_ZERO": "toward_zero",
    "directml:1:6_0": "toward_zero",
}


@pytest.mark.parametrize("operator", OPERATORS)
def test_every_dialect_s_operator(service: Service, tmp_path: Path, operator: str) -> None:
    x = patterns("float32", 100)
    np.save(tmp_path / "in.npy", x)
    done = good("round", tmp_path / "in.npy", tmp_path / "out.npy", "--operator", operator,
                "--json", url=service.url)  # fmt: skip
    y = np.load(tmp_path / "out.npy")
    assert np.array_equal(bits(y), expected_bits(x, OPERATORS[operator]))
    report = json.loads(done.stdout)
    assert (report["operator"], report["rounding"]) == (operator, OPERATORS[operator])


REFUSED = {
    "onnx-integers": ("int32", "onnx:22", "elem_type: onnx: Round takes FLOAT16"),
    "directml-rank": ("float32", "directml:TOWARD_ZERO:2_1", "exactly 4 dimensions, got 1"),
}


@pytest.mark.parametrize(("dtype", "operator", "why"), REFUSED.values(), ids=REFUSED)
def test_a_dialect_s_rules_hold(
    service: Service, tmp_path: Path, dtype: str, operator: str, why: str
) -> None:
    np.save(tmp_path / "in.npy", np.zeros(3, dtype))
    bad(1, why, "round", tmp_path / "in.npy", tmp_path / "out.npy", "--operator", operator,
        url=service.url)  # fmt: skip
    assert [path.name for path in tmp_path.iterdir()] == ["in.npy"]


@pytest.mark.parametrize("columns", ["80", "60", "200"])
def test_operators_fit_the_terminal(service: Service, columns: str) -> None:
    shown = good("operators", url=service.url, COLUMNS=columns).stdout.decode().splitlines()
    assert max(map(len, shown)) <= int(columns)
    assert len(shown) < 40
    assert "  3_0 to 6_4, ranks 1 to 8: FLOAT32 FLOAT16" in shown
    assert "(half_to_even if none is given)" in " ".join(" ".join(shown).split())
    words = {word for line in shown for word in line.split()}
    assert {"half_away_from_zero", "HALVES_TO_NEAREST_EVEN", "float8_e4m3fn"} <= words


def test_operators(service: Service) -> None:
    shown = good("operators", "--url", service.url).stdout.decode()
    for name in ("ieee754", "Round-22", "half_away_from_zero", "TOWARD_INFINITY", "BFLOAT16"):
        assert name in shown
    assert "dialects" in json.loads(good("operators", "--json", url=service.url).stdout)


def test_conformance(service: Service) -> None:
    shown = good("conformance", url=service.url).stdout.decode()
    assert "bfloat16" in shown
    assert "NO" not in shown
    assert shown.splitlines()[-1].startswith("The service conforms to what tensor-round")
    assert json.loads(good("conformance", "--json", url=service.url).stdout)["matches_this_package"]


def test_conformance_is_not_what_the_service_says_it_is(service: Service) -> None:
    lie = json.dumps(
        {
            "conforms": True,
            "backends": {
                "numpy": {
                    "float16": {"ties_to_even": {"sha256": "0" * 64, "matches_published": True}}
                }
            },
        }
    ).encode()
    answer = (
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n"
        b"Content-Length: %d\r\n\r\n" % len(lie)
    ) + lie
    with Proxy(None, lambda _: Fault(answer=answer)) as proxy:
        assert b"NO" in command("conformance", url=proxy.url).stdout
        assert command("conformance", url=proxy.url).returncode == 1
        shown = bad(1, "", "conformance", url=proxy.url)
        assert shown == ""


def test_ping(service: Service) -> None:
    assert b"is ready" in good("ping", url=service.url).stdout
    assert json.loads(good("ping", "--json", url=service.url).stdout)["ready"] is True


REFUSAL = json.dumps(
    {"code": "unauthorized", "detail": "no valid key", "status": 401, "errors": []}
).encode()
UNAUTHORIZED = (
    b"HTTP/1.1 401 Unauthorized\r\nContent-Type: application/problem+json\r\n"
    b"X-Request-ID: abc\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(REFUSAL)
) + REFUSAL


def test_refusals_are_exit_code_1_and_say_what_helps(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("s3cret\nsecond line\n")
    with Proxy(None, lambda _: Fault(answer=UNAUTHORIZED)) as proxy:
        shown = bad(1, "no valid key", "operators", "--api-key-file", key, url=proxy.url)
        assert "--api-key-file" in shown
        assert "request abc" in shown
        told = command("ping", "--json", url=proxy.url, TENSOR_ROUND_API_KEY="other").stderr
        error = json.loads(told)["error"]
        assert (error["code"], error["status"], error["request_id"]) == ("unauthorized", 401, "abc")
        assert proxy.seen[0].headers()["authorization"] == "Bearer s3cret"
        assert proxy.seen[1].headers()["authorization"] == "Bearer other"


def test_certificates_that_are_not_trusted_are_told_of(service: Service) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATES / "server.pem")
    with Proxy(service.address, tls=context) as proxy:
        bad(1, "--ca-file names the certificates to trust", "ping", url=proxy.url)
        good("ping", "--ca-file", CERTIFICATES / "ca.pem", url=proxy.url)


def test_another_server_is_told_of() -> None:
    html = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    with Proxy(None, lambda _: Fault(answer=html)) as proxy:
        bad(1, f"no tensor-round service answers at {proxy.url}", "operators", url=proxy.url)


@pytest.mark.not_behind("unix", reason="a socket's URL has no path behind it")
def test_a_path_of_the_service_is_not_where_it_begins(service: Service) -> None:
    url = f"{service.url}/round"
    assert f"does the service begin at {url}?" in bad(1, "not_found", "operators", url=url)


def test_nobody_there_is_exit_code_1() -> None:
    with Proxy(None) as gone:
        url = gone.url
    shown = bad(1, "cannot connect", "ping", url=url)
    assert "is a service running" in shown


WRONG: dict[str, tuple[str, tuple[str, ...]]] = {
    "no-command": ("Usage", ()),
    "unknown-command": ("No such command", ("truncate",)),
    "unknown-option": ("No such option", ("ping", "--loud")),
    "no-target": ("Missing argument", ("round", "in.npy")),
    "no-file": ("nothing.npy: No such file", ("round", "nothing.npy", "out.npy")),
    "a-folder": ("directory", ("round", ".", "out.npy")),
    "no-npy": ("text: this is no .npy file", ("round", "text", "out.npy")),
    "npz": ("all.npz: this is an archive of arrays (.npz)", ("round", "all.npz", "out.npy")),
    "cut-npy": ("cut.npy: the .npy header calls for", ("round", "cut.npy", "out.npy")),
    "complex": ("complex.npy: the .npy file has elements of type '<c8'",
                ("round", "complex.npy", "out.npy")),
    "complex-served": ("types that are: float16, bfloat16", ("round", "complex.npy", "out.npy")),
    "no-dtype": ("--dtype", ("round", "bf16.npy", "out.npy")),
    "wrong-dtype": ("must be one of", ("round", "f4.npy", "out.npy", "--dtype", "bfloat16")),
    "wrong-rounding": ('toward_negative, got "up"',
                       ("round", "f4.npy", "out.npy", "--rounding", "up")),
    "wrong-operator": ("directml:MODE (HALVES_TO_NEAREST_EVEN, TOWARD_INFINITY",
                       ("round", "f4.npy", "out.npy", "--operator", "directml")),
    "no-operator": ("must be one of ties_to_even",
                    ("round", "f4.npy", "out.npy", "--operator", "")),
    "wrong-mode": ("takes HALVES_TO_NEAREST_EVEN, TOWARD_INFINITY, TOWARD_ZERO",
                   ("round", "f4.npy", "out.npy", "--operator", "directml:UP")),
    "wrong-opset": ("introduced in opset 11",
                    ("round", "f4.npy", "out.npy", "--operator", "onnx:10")),
    "two-operators": ("give one of the two", ("round", "f4.npy", "out.npy", "--operator", "onnx",
                                              "--rounding", "ties_to_even")),
    "no-folder": ("there is no folder nowhere", ("round", "f4.npy", "nowhere/out.npy")),
    "into-a-folder": (". is a folder", ("round", "f4.npy", ".")),
    "wrong-url": ("unix:///path", ("ping", "--url", "gopher://x")),
    "timeout-as-a-word": ("valid number", ("ping", "--timeout", "abc")),
    "wrong-timeout": ("timeout", ("ping", "--timeout", "0")),
    "no-key-file": ("does not exist", ("ping", "--api-key-file", "nothing")),
    "empty-key-file": ("first line is empty", ("ping", "--api-key-file", "empty")),
    "binary-key-file": ("cut.npy is no text", ("ping", "--api-key-file", "cut.npy")),
}  # fmt: skip


@pytest.fixture(scope="module")
def odd_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("odd")
    (folder / "text").write_text("this is no .npy file")
    (folder / "empty").write_text("")
    np.save(folder / "f4.npy", np.zeros(3, "<f4"))
    np.savez(folder / "all.npz", a=np.zeros(3), b=np.zeros(3))
    np.save(folder / "complex.npy", np.zeros(3, "<c8"))
    np.save(folder / "bf16.npy", patterns("bfloat16", 3))
    (folder / "cut.npy").write_bytes((folder / "f4.npy").read_bytes()[:-1])
    return folder


@pytest.mark.parametrize(("why", "arguments"), WRONG.values(), ids=WRONG)
def test_wrong_usage_is_exit_code_2(
    odd_files: Path, monkeypatch: pytest.MonkeyPatch, why: str, arguments: tuple[str, ...]
) -> None:
    monkeypatch.chdir(odd_files)
    done = command(*arguments, url="http://127.0.0.1:9")
    shown = (done.stdout + done.stderr).decode()
    assert done.returncode == 2, shown
    assert why in _words(shown)
    assert "Traceback" not in shown
    assert "Value error" not in shown


def _words(shown: str) -> str:
    """The text without the frame that is drawn around it."""
    return " ".join(word for word in shown.split() if word not in ("\u2502", "|"))


@pytest.mark.parametrize(
    "name", ["unknown-command", "no-target", "no-npy", "wrong-operator", "wrong-url"]
)
def test_wrong_usage_is_json_too(
    odd_files: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(odd_files)
    why, arguments = WRONG[name]
    done = command(*arguments, "--json", url="http://127.0.0.1:9")
    assert (done.returncode, done.stdout) == (2, b"")
    error = json.loads(done.stderr)["error"]
    assert error["kind"] == "UsageError"
    assert why in error["detail"]


def test_what_is_wrong_with_a_file_is_json_too(service: Service, tmp_path: Path) -> None:
    np.save(tmp_path / "in.npy", np.zeros(1 << 20, "<f4"))
    done = subprocess.run(
        [sys.executable, "-m", "tensor_round", "round", "in.npy", "out.npy", "--json"],
        cwd=tmp_path,
        env={**os.environ, "TENSOR_ROUND_URL": service.url, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20)),
        timeout=60,
    )
    assert done.returncode == 1
    assert json.loads(done.stderr)["error"]["kind"] == "OSError"


def test_version() -> None:
    assert good("--version").stdout.decode().strip() == version("tensor-round")


@pytest.mark.parametrize("arguments", [("operators",), ("round", "in.npy", "-")])
@pytest.mark.parametrize("form", [(), ("--json",)], ids=["text", "json"])
def test_a_reader_that_has_had_enough_is_no_error(
    service: Service, tmp_path: Path, arguments: tuple[str, ...], form: tuple[str, ...]
) -> None:
    np.save(tmp_path / "in.npy", np.zeros(1 << 20, "<f4"))
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "wb") as stdout:
        done = subprocess.run(
            [sys.executable, "-m", "tensor_round", *arguments, *form],
            cwd=tmp_path,
            env={**os.environ, "TENSOR_ROUND_URL": service.url, "PYTHONDONTWRITEBYTECODE": "1"},
            stdout=stdout,
            stderr=subprocess.PIPE,
            timeout=60,
        )
    assert (done.returncode, done.stderr) == (1, b"")


@pytest.mark.parametrize("name", ["round", "execute", "operators", "conformance", "ping", "verify"])
def test_help_cuts_no_word_at_80_columns(name: str) -> None:
    assert "\u2026" not in good(name, "--help", COLUMNS="80").stdout.decode()


def test_help_and_completion() -> None:
    shown = good("round", "--help").stdout.decode()
    for word in (
        "--rounding",
        "ties_to_away",
        "--operator",
        "directml:TOWARD_INFINITY",
        "--dtype",
        "--api-key-file",
        "TENSOR_ROUND_URL",
    ):
        assert word in shown
    completion = good("--show-completion", "bash", _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")
    assert b"complete" in completion.stdout
