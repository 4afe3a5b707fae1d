"""Logs of processes that run on: one JSON object a line on standard error, and never a key in it."""

import logging
import sys
from typing import Any

import structlog
from structlog.typing import Processor

from core.keys import MASK, SHAPE

_SHARED: list[Processor] = [
    structlog.contextvars.merge_contextvars,
    structlog.processors.add_log_level,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
]


def configure(level: int = logging.INFO) -> None:
    """Sends our own logs and those of the libraries the same way."""
    render: list[Processor] = [structlog.processors.format_exc_info, structlog.processors.JSONRenderer(), _without_keys]
    structlog.configure(
        processors=[*_SHARED, *render],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*_SHARED, structlog.stdlib.add_logger_name],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *render],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)


def _without_keys(_logger: Any, _method: str, line: Any) -> Any:
    """The last step: whatever path or message a key came by, only its id is written."""
    return SHAPE.sub(MASK, line)
