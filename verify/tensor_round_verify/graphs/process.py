"""A model of a stranger, read and run in a separate process.

A model may loop for ever, or end its process by an error of a library. Libraries in C++ also keep
Python's lock, so that no thread beside them could count the seconds.
"""

from __future__ import annotations

import contextlib
import faulthandler
import importlib
import json
import os
import pickle
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from tensor_round.contract.errors import CannotVerify

from ..deadlines import NotDone, within
from ..runtimes import NotSupported, Runtime, open_runtime
from ..runtimes.command import end_of, last_line
from ..runtimes.model_tensors import Array, Tensor
from ..runtimes.runtime import TimedOut, first_line
from .graph import Graph, Node

#: The graphs that are read in a process: modules, classes, packages.
Reader = tuple[str, str, str]
#: Seconds after which the process ends itself, if nobody has ended it at its limit.
_GRACE = 10.0
_PROGRAM = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from tensor_round_verify.graphs.process import serve
serve()
"""


class SeparateGraph(Graph):
    """The graph of a model in a process, which reads and runs it in ``timeout`` seconds each."""

    def __init__(self, path: Path, reader: Reader, timeout: float) -> None:
        self._timeout = timeout
        self._stderr = TemporaryFile()  # noqa: SIM115 - close() does
        self._process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, json.dumps(sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
        )
        try:
            every, inputs, outputs = self._answer(f"reading {path}", (path, reader))
        except BaseException:
            self.close()
            raise
        super().__init__(path, every, inputs, outputs)

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        with contextlib.suppress(BrokenPipeError), self._stderr, self._process:
            pass

    def observed(
        self, runtime: Runtime | None, given: Mapping[str, Array]
    ) -> tuple[str, dict[str, Tensor]]:
        """Run the model there."""
        found: tuple[str, dict[str, Tensor]] = self._ran("observed", runtime, dict(given))
        return found

    def unchanged(
        self, runtime: Runtime, given: Mapping[str, Array], *, strict: bool = False
    ) -> dict[str, Tensor]:
        """Run the model as it is there."""
        found: dict[str, Tensor] = self._ran("unchanged", runtime, dict(given), strict=strict)
        return found

    def alone(self, runtime: Runtime, node: Node, operands: Sequence[Tensor]) -> Tensor:
        """Run a model of the node there."""
        found: Tensor = self._ran("alone", runtime, node, list(operands))
        return found

    def _ran(self, method: str, runtime: Runtime | None, *arguments: object, **more: object) -> Any:
        """What a method of the graph there returns."""
        if runtime is not None and not runtime.runs_models:
            raise NotSupported("it runs operators here, not models")
        question = (runtime and runtime.opened_as, method, arguments, more)
        return self._answer(f"running {self.path}", question)

    def _answer(self, doing: str, question: object) -> Any:
        """The process's answer; raises its error, or :class:`CannotVerify` if it ends."""
        try:
            answer = within(self._timeout, lambda: self._asked(question))
        except NotDone:
            raise TimedOut(f"{doing} did not finish within {self._timeout:g} s") from None
        except (OSError, EOFError, pickle.UnpicklingError):
            self._process.kill()
            how = end_of(self._process.wait())
            raise CannotVerify(f"{doing}: its process {how}{last_line(self._stderr)}") from None
        if isinstance(answer, CannotVerify):
            raise answer
        return answer

    def _asked(self, question: object) -> Any:
        to, of = self._process.stdin, self._process.stdout
        assert to is not None  # they are pipes
        assert of is not None
        pickle.dump((self._timeout, question), to)
        to.flush()
        return pickle.load(of)


def serve() -> None:
    """Answer the questions on standard input: about the model's nodes first, then for its runs."""
    questions, answers = (os.fdopen(os.dup(of), mode) for of, mode in ((0, "rb"), (1, "wb")))
    # What a runtime prints is no answer.
    os.dup2(2, 1)
    graph: Graph | None = None
    path: Path | None = None
    with questions, answers, contextlib.suppress(EOFError):
        while True:
            timeout, question = pickle.load(questions)
            # Whoever asks may be killed, and end nothing.
            faulthandler.dump_traceback_later(timeout + _GRACE, exit=True)
            answer: object
            try:
                if graph is None:
                    path, reader = question
                    graph = _read(path, reader)
                    answer = graph.every, graph.inputs, graph.outputs
                else:
                    name, method, arguments, more = question
                    runtime = name and open_runtime(name, timeout)
                    answer = getattr(graph, method)(runtime, *arguments, **more)
            except CannotVerify as error:
                answer = error
            except Exception as error:  # of libraries, which do not publish their classes
                answer = CannotVerify(f"{path} is not a valid model: {first_line(error)}")
            faulthandler.cancel_dump_traceback_later()
            pickle.dump(answer, answers)
            answers.flush()


def _read(path: Path, reader: Reader) -> Graph:
    module, name, package = reader
    try:
        graph: Graph = getattr(importlib.import_module(f".{module}", __package__), name)(path)
    except ImportError as error:
        why = f"{path} is read by the package {package} ({first_line(error)})"
        raise CannotVerify(f"{why}; pip install {package}") from error
    return graph
