"""What a sender is told when the service itself gives way: the fault is not the request's.

Memory and threads run out and devices fail; the next request may well be served. So these
are 503 with Retry-After, and nothing of the fault but its kind is told.
"""

from __future__ import annotations

import logging

from tensor_round.errors import BackendFailed, InternalError, Overloaded, RequestRefused

logger = logging.getLogger(__name__)

NO_MEMORY = Overloaded("there is no memory for this request now", retry_after=1)
FAILED = BackendFailed("the service failed on this request", retry_after=1)


def refusal_for(error: Exception, request_id: str = "") -> RequestRefused:
    """The refusal that stands for any exception; the log has what it does not say.

    Python and CUDA raise RuntimeError where threads or devices are to be had no more.
    """
    extra = {"request_id": request_id} if request_id else {}
    match error:
        case RequestRefused():
            # Who keeps it keeps the frames it came through, and with them the tensor's memory.
            return error.with_traceback(None)
        case MemoryError():
            logger.warning("out of memory: %s", error, extra=extra)
            return Overloaded("there is no memory for this request now", retry_after=1)
        case RuntimeError():
            logger.error("failure on a sound request", exc_info=error, extra=extra)
            return BackendFailed("the service failed on this request", retry_after=1)
    logger.error("unforeseen failure", exc_info=error, extra=extra)
    return InternalError("the service failed; its log has the fault")
