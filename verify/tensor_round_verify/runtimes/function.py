"""``python:module:function``: a function from NumPy array to NumPy array."""

from __future__ import annotations

import importlib
import inspect
import os
import sys
from collections.abc import Callable
from threading import Thread
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import CannotVerify
from ..reference import FLOATS, ROUNDINGS, Bits
from .runtime import RoundBits, failed, first_line, patterns, values

#: A function of one array; it may have a second parameter ``rounding``.
Function = Callable[..., npt.NDArray[Any]]


class PythonFunction:
    """A function that rounds an array; if it has a parameter ``rounding``, in any direction."""

    dtypes = tuple(FLOATS)
    concurrent = False

    def __init__(self, function: Function, timeout: float, name: str | None = None) -> None:
        self.name = name or f"python:{function.__module__}:{_name(function)}"
        self.function = function
        self._timeout = timeout
        self._takes_rounding = "rounding" in parameters(function)
        self.roundings = ROUNDINGS if self._takes_rounding else ROUNDINGS[:1]

    def kernel(self, dtype: str, rounding: str) -> RoundBits:
        """The function, called with this direction if it has a parameter for it."""
        more = {"rounding": rounding} if self._takes_rounding else {}

        def kernel(bits: Bits) -> Bits:
            result = self.called(dtype, values(bits, dtype), **more)
            return patterns(result, bits, dtype, self.name)

        return kernel

    def called(self, dtype: str, *arguments: object, **more: object) -> object:
        """The function's result; raises :class:`CannotVerify` if the function raises."""
        result = self._returned(arguments, more)
        if isinstance(result, BaseException):
            raise failed(self.name, dtype, first_line(result)) from result
        return result

    def close(self) -> None:
        """Do nothing."""

    def _returned(self, arguments: tuple[object, ...], more: dict[str, object]) -> object:
        """The function's result, or the exception that it raises.

        It runs in a thread of its own: a function that hangs cannot be ended, only left behind.
        """
        results: list[object] = []

        def call() -> None:
            try:
                with np.errstate(all="ignore"):
                    results.append(self.function(*arguments, **more))
            except BaseException as error:  # sys.exit() too
                results.append(error)

        thread = Thread(target=call, name="kernel", daemon=True)
        thread.start()
        thread.join(self._timeout)
        if thread.is_alive():
            raise CannotVerify(f"{self.name} was not done after {self._timeout:g} s")
        return results[0]


def open_function(text: str, timeout: float) -> PythonFunction:
    """Import ``module:function``, also from the current folder."""
    module_name, _, path = text.partition(":")
    if not module_name or not path:
        raise CannotVerify(f"python:{text} names no function: write python:module:function")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        found: Any = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:  # importing runs arbitrary code
        raise CannotVerify(f"{module_name} cannot be imported: {first_line(error)}") from error
    for part in path.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        raise CannotVerify(f"{module_name} has no function {path}")
    return PythonFunction(found, timeout, f"python:{text}")


def parameters(function: Function) -> tuple[str, ...]:
    """The names of a function's parameters."""
    try:
        return tuple(inspect.signature(function).parameters)
    except (TypeError, ValueError):  # ufuncs and other built-in functions may have none
        return ()


def _name(function: Function) -> str:
    """The function's name; for a callable object, which has none, its class's."""
    return getattr(function, "__qualname__", type(function).__qualname__)
