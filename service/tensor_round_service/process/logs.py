"""Configuration of the standard library's logging: text, or JSON by structlog.

uvicorn logs through the same loggers.
"""

from __future__ import annotations

from typing import Any

import structlog
from structlog.typing import EventDict
from uvicorn.config import LOGGING_CONFIG

from ..settings import Settings

#: The root of this package's loggers.
_PACKAGE = "tensor_round_service"
#: Add level, logger, extra fields, time in UTC and traceback to a JSON object.
_JSON_FIELDS = (
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.stdlib.ExtraAdder(),
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    structlog.processors.format_exc_info,
)


def _without_colours(_logger: Any, _method: str, event: EventDict) -> EventDict:
    """Remove uvicorn's second copy of a message, which is for terminals."""
    event.pop("color_message", None)
    return event


def log_config(settings: Settings) -> dict[str, Any]:
    """The ``dictConfig`` of a service on these settings."""
    level = settings.log_level.upper()
    config = dict(LOGGING_CONFIG)
    if settings.log_format == "json":
        formatter = {
            "()": structlog.stdlib.ProcessorFormatter,
            "processors": [
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                _without_colours,
                structlog.processors.JSONRenderer(),
            ],
            "foreign_pre_chain": _JSON_FIELDS,
        }
        config["formatters"] = {"default": formatter, "access": formatter}
    loggers = {name: {**logger, "level": level} for name, logger in config["loggers"].items()}
    for root in (_PACKAGE, "opentelemetry"):
        loggers[root] = {"handlers": ["default"], "level": level, "propagate": False}
    return {**config, "loggers": loggers}
