"""Failures of the service itself: at its start, and later as refusals.

No memory, no thread, a failed device: the request is valid and a retry may succeed, so these are
503 with Retry-After. The response names the kind of failure only; the log has the details.
"""

from __future__ import annotations

import logging

from tensor_round.contract.errors import BackendFailed, InternalError, Overloaded, RequestRefused

logger = logging.getLogger(__name__)

NO_MEMORY = Overloaded("no memory is available for this request", retry_after=1)
FAILED = BackendFailed("the service failed on this request", retry_after=1)


class CannotStart(Exception):
    """The operator must correct something before the service can start; the message says what."""


def refusal_for(error: Exception, request_id: str = "") -> RequestRefused:
    """The refusal for any exception; unexpected exceptions are logged with the request's id.

    Python and CUDA raise RuntimeError if no thread can start or a device fails.
    """
    extra = {"request_id": request_id} if request_id else {}
    match error:
        case RequestRefused():
            # Without its traceback, which refers to frames that refer to the tensor's memory.
            return error.with_traceback(None)
        case MemoryError():
            logger.warning("out of memory: %s", error, extra=extra)
            return Overloaded(NO_MEMORY.detail, retry_after=1)
        case RuntimeError():
            logger.error("failure on a valid request", exc_info=error, extra=extra)
            return BackendFailed(FAILED.detail, retry_after=1)
    logger.error("unexpected exception", exc_info=error, extra=extra)
    return InternalError("the service failed; its log has the details")
