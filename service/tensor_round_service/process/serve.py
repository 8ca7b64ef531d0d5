"""The service's main function: it reads the settings and runs one or several processes.

What serves is imported by the processes that serve: a supervisor of workers needs little.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from ..deployment import Deployment
from ..failures import CannotStart
from ..settings import Settings
from . import certificates
from .command_line import check_propagators, read_settings, unknown_variables
from .descriptors import raise_limit
from .listener import Inherited, Listener, notify
from .logs import Log, logging_to_stderr
from .worker_folder import remove_with, worker_folder
from .workers import Supervisor, import_once

logger = logging.getLogger(__name__)

#: What serves. To import it takes most of the time of a start.
_SERVING = f"{__package__}.serving_process"


def run(arguments: Sequence[str]) -> int:
    """Serve until SIGTERM or Ctrl-C; return the exit code."""
    settings = read_settings(arguments)
    with logging_to_stderr(settings) as log:
        return _run(settings, log)


def _run(settings: Settings, log: Log) -> int:
    for sentence in unknown_variables(os.environ):
        logger.warning(sentence)
    raise_limit()
    # Until the server handles signals, the process can exit at once.
    for signum in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signum, lambda *_: sys.exit(0))
    # It asks for files to be read again; until then they are still to be read for the first time.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        check_propagators(os.environ)
        inherited = Inherited.take(os.environ)
        if inherited is not None:
            for name in sorted({"port", "uds"} & settings.model_fields_set):
                logger.warning("%s has no effect: the service inherits its sockets", name.upper())
            settings = inherited.applied_to(settings)
        if settings.workers > 1:
            return _supervise(settings, inherited)
        from .serving_process import serve_alone

        return serve_alone(settings, inherited, log, partial(_announce, settings))
    except CannotStart as error:
        log.say(f"tensor-round-service: {error}")
        return 1


def _supervise(settings: Settings, inherited: Inherited | None) -> int:
    """Serve in several processes on one listener."""
    with Listener(settings, inherited) as listener, worker_folder() as folder:
        remove_with(folder, import_once(_SERVING))
        main = partial(_worker_main, settings, folder)
        announce = partial(_announce, settings, listener)
        return Supervisor(main, settings, listener, announce, folder).run()


def _announce(settings: Settings, listener: Listener) -> None:
    """Log the address and the deployment, and tell systemd."""
    logger.info("running on %s with %s", listener.name, Deployment.of(settings))
    if listener.is_reachable and settings.api_keys_file is None and settings.ssl_ca_certs is None:
        logger.warning(
            "other machines can reach HOST %s and use the service without a key or certificate: "
            "set API_KEYS_FILE or SSL_CA_CERTS",
            settings.host,
        )
    if (certificate := settings.ssl_certfile) is not None:
        # Its content has been read before, or the start would have failed.
        sentence = certificates.warning(certificate, certificates.expiry(certificate.read_bytes()))
        if sentence is not None:
            logger.warning(sentence)
    notify("READY=1")


def _worker_main(
    settings: Settings, folder: Path, listener: Listener, report: Callable[[], None]
) -> int:
    """The main function of a worker."""
    from .serving_process import serve_as_worker

    return serve_as_worker(settings, folder, listener, report)
