"""``cmd:PROGRAM``: a program that reads elements and writes their results."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import time
from collections.abc import Callable
from tempfile import TemporaryFile
from typing import IO

import numpy as np

from tensor_round.contract.dtypes import BY_NAME
from tensor_round.contract.errors import CannotVerify

from ..conversions.blocks.quantization import Array, BlockQuantization, Blocks
from ..conversions.conversion import Cast, FakeQuantization, Linear, Quantization
from ..conversions.patterns import Trial
from ..deadlines import NotDone, within
from ..reference import FLOATS, ROUNDINGS, bits_type
from .forms import Form, Values
from .runtime import Adapter, NotSupported, QuantizeBits, QuantizeBlocks, RoundBits, TimedOut

#: Placeholders in the command line for the dtype's and the direction's name.
DTYPE, ROUNDING = "{dtype}", "{rounding}"

#: Bytes at the end of stderr in which its last line is searched.
TAIL = 1 << 12


class Program(Adapter):
    """A command line, run once for each block of patterns, its placeholders replaced by values.

    The program reads the block's elements, little-endian, from standard input until its end. It
    writes the results, as many elements, to standard output.
    """

    concurrent = True
    probed = False
    # A stream of any length, also of none, to a program that is started for each.
    forms, slow = Form.LENGTH | Form.EMPTY, True
    linear_operators = ("quantize_linear", "dequantize_linear", "fake_quantize")

    def __init__(self, text: str, timeout: float) -> None:
        self.name = f"cmd:{text}"
        try:
            self._words = shlex.split(text)
        except ValueError as error:
            raise CannotVerify(f"{self.name} is not a command line: {error}") from None
        if not self._words:
            raise CannotVerify("cmd: names no program: write cmd:PROGRAM")
        self._text, self._timeout = text, timeout
        self.dtypes = tuple(FLOATS) if DTYPE in text else ("float32",)
        self.roundings = ROUNDINGS if ROUNDING in text else ROUNDINGS[:1]
        if DTYPE not in text:
            self.assumed = (
                f"{self.name} was fed float32: name another type with --dtype, or write {DTYPE} "
                "where the program takes its name"
            )

    def _rounds(self, dtype: str, rounding: str) -> Callable[[Values], Values]:
        words = [word.replace(DTYPE, dtype).replace(ROUNDING, rounding) for word in self._words]
        return lambda x: self._run(words, x, dtype, dtype)

    def cast(self, how: Cast) -> RoundBits:
        """The program, which reads elements of the source type and writes the target's."""
        words = self._filled(
            source=(how.source, "float32"),
            target=(how.target, None),
            rounding=(how.rounding, how.usual),
            saturate=(str(how.saturate).lower(), str(how.usually_saturates).lower()),
        )

        def cast(x: Values) -> Values:
            return self._run(words, x, how.source, how.target)

        return self._kernel(cast, how.source, how.target)

    def _linear(self, how: Linear) -> QuantizeBits:
        """The program, with the tensor's scale and zero point in its command line."""
        if how.per_axis or how.blocked:
            raise NotSupported("a program has one scale here")
        if isinstance(how, Quantization) and not how.saturate:
            raise NotSupported("a program saturates here")
        # One that quantizes and dequantizes writes the type that it reads.
        is_faking = isinstance(how, FakeQuantization)
        to = {"through": (how.codes, None)} if is_faking else {"target": (how.target, None)}

        def convert(trial: Trial) -> Values:
            x, scale, point = how.arrays(trial)
            words = self._filled(
                source=(how.source, "float32"),
                **to,
                precision=(how.precision, ""),
                scale=(repr(float(scale)), None),
                zero_point=(str(point), "0"),
            )
            return self._run(words, x, how.source, how.target)

        return self._by_trials(convert, how)

    def block_quantize(self, how: BlockQuantization) -> QuantizeBlocks:
        """The program, which reads whole blocks; it writes all scales, then all elements."""
        fmt = how.format
        words = self._filled(
            source=(how.source, "float32"),
            format=(how.target, None),
            scale=(how.rounding, fmt.rules[0]),
            tensor_scale=(repr(how.tensor_scale), "1.0"),
        )

        def quantize(x: Array) -> Blocks:
            *rows, columns = x.shape
            if columns % fmt.size:
                raise CannotVerify(f"{self.name} is given whole blocks", "a program has no shapes")
            count = x.size // fmt.size
            written = self._all_written(words, x.tobytes(), count + x.size, how.source)
            found = np.frombuffer(written, np.uint8)
            scales = found[:count].reshape(*rows, columns // fmt.size)
            return self._blocks((scales, found[count:].reshape(x.shape)), fmt, x.shape)

        return quantize

    def _filled(self, **told: tuple[str, str | None]) -> list[str]:
        """The command line with these values; one without a placeholder must be its default."""
        words = self._words
        for name, (value, default) in told.items():
            if f"{{{name}}}" not in self._text and value != default:
                raise NotSupported(f"its command line does not name {{{name}}}")
            words = [word.replace(f"{{{name}}}", value) for word in words]
        return words

    def _run(self, words: list[str], x: Values, source: str, target: str) -> Values:
        """The program's results, an element of the target type for each operand."""
        own = bits_type(target)
        written = self._all_written(words, x.tobytes(), x.size * own.itemsize, source)
        return np.frombuffer(written, own).view(BY_NAME[target].numpy)

    def _all_written(self, words: list[str], given: bytes, size: int, source: str) -> bytes:
        """What the program writes; raises :class:`CannotVerify` for other than ``size`` bytes."""
        written = self._written(words, given, size)
        if len(written) != size:
            more = "more than " if len(written) > size else ""
            count = f"{more}{min(len(written), size):,}"
            raise CannotVerify(f"{self.name} wrote {count} bytes for {size:,} of {source}")
        return written

    def _written(self, words: list[str], given: bytes, size: int) -> bytes:
        """What the program writes, at most one byte more than ``size``."""
        with TemporaryFile() as stdin, TemporaryFile() as stderr:
            stdin.write(given)
            stdin.seek(0)
            ends = time.monotonic() + self._timeout
            program, code = self._started(words, stdin, stderr), 0
            try:
                assert program.stdout is not None  # it is a pipe
                written = _read_by(ends, program.stdout, size + 1)
                if written is None or len(written) > size:
                    _kill_group(program)
                    code = program.wait()
                else:
                    code = program.wait(max(0.0, ends - time.monotonic()))
            except subprocess.TimeoutExpired:
                written = None
            finally:
                if program.returncode is None:
                    _kill_group(program)
                    program.wait()
            if written is None:
                raise TimedOut(f"{self.name} did not finish within {self._timeout:g} s")
            if code and len(written) <= size:
                raise CannotVerify(f"{self.name} {end_of(code)}{last_line(stderr)}")
            return written

    def _started(
        self, words: list[str], stdin: IO[bytes], stderr: IO[bytes]
    ) -> subprocess.Popen[bytes]:
        try:
            return subprocess.Popen(
                words,
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=stderr,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            why = str(error.strerror if isinstance(error, OSError) else error)
            if isinstance(error, FileNotFoundError) and is_program(words[0]):
                # A shell looks for it here as little.
                why += f"; did you mean cmd:.{os.sep}{words[0]}?"
            raise CannotVerify(f"{self.name} cannot be run: {why}") from None


def is_program(path: str) -> bool:
    """Whether there is an executable file at this path."""
    return os.path.isfile(path) and os.access(path, os.X_OK)


def _read_by(ends: float, pipe: IO[bytes], size: int) -> bytes | None:
    """At most ``size`` bytes, up to the end of a pipe, which is closed; None if that is too late.

    A process of another session may keep the pipe for as long as it likes.
    """

    def read() -> bytes:
        with pipe:
            return pipe.read(size)

    try:
        return within(ends - time.monotonic(), read)
    except NotDone:
        return None


def _kill_group(program: subprocess.Popen[bytes]) -> None:
    """Kill a program, if it runs, and its child processes."""
    if hasattr(os, "killpg"):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(program.pid, signal.SIGKILL)
    else:
        program.kill()


def end_of(code: int) -> str:
    """How a process with this return code ended, as a predicate."""
    if code > 0:
        return f"ended with exit code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"


def last_line(stderr: IO[bytes]) -> str:
    """The last line in a file, after a colon; nothing if there is none."""
    stderr.seek(max(0, stderr.seek(0, os.SEEK_END) - TAIL))
    lines = stderr.read().decode(errors="replace").strip().splitlines()
    return f": {lines[-1].strip()}" if lines else ""
