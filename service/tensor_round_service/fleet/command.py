"""The command ``tensor-round-service ray``."""

from __future__ import annotations

import logging
import os
import signal
from types import FrameType

import ray

from ..process.command_line import read_settings, unknown_variables
from ..process.listener import CannotListen
from ..process.logs import Log, logging_to_stderr
from ..settings import PREFIX, Settings
from .controller import Controller
from .directory import directory
from .leadership import acquire_leadership, is_deposed
from .options import PROGRAM, FleetOptions, Specification

logger = logging.getLogger(__name__)

#: Seconds after DRAIN_DELAY and DRAIN_TIMEOUT at which a replica is killed.
KILL_AFTER_SECONDS = 15.0


def keep(options: FleetOptions) -> int:
    """Keep a fleet until SIGTERM or Ctrl-C; return the exit code."""
    specification = options.specification(os.environ)
    settings = read_settings(Settings, [], PROGRAM)
    with logging_to_stderr(settings) as log:
        return _keep_logging(options, specification, settings, log)


def _keep_logging(
    options: FleetOptions, specification: Specification, settings: Settings, log: Log
) -> int:
    for names, model in ((specification.environment, Settings), (os.environ, FleetOptions)):
        for sentence in unknown_variables(names, model):
            logger.warning(sentence)
    if settings.uds is not None:
        log.say(f"{PROGRAM}: {PREFIX}UDS: must not be set for replicas")
        return 2
    drain_seconds = settings.drain_delay + settings.drain_timeout + KILL_AFTER_SECONDS
    try:
        ray.init(options.address, namespace=options.name, logging_level=logging.WARNING)
        leadership = acquire_leadership()
        controller = Controller(
            options, specification, lambda: is_deposed(leadership), drain_seconds
        )
        _stop_by_signals(controller)
        host, port = options.directory_host, options.directory_port
        with directory(host, port, controller.ready_urls, options.min_replicas) as url:
            logger.info("the list of replicas is %s/replicas", url)
            controller.run()
    except (CannotListen, ConnectionError) as error:
        log.say(f"{PROGRAM}: {error}")
        return 1
    finally:
        ray.shutdown()
    return 0


def _stop_by_signals(controller: Controller) -> None:
    """Drain at SIGTERM and SIGINT, exit at a second one; ray.init has set handlers of its own."""

    def stop(signum: int, _frame: FrameType | None) -> None:
        if controller.stopping.is_set():
            os._exit(128 + signum)
        controller.stopping.set()

    for signum in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signum, stop)
