"""What holds for every ring of tests."""

from __future__ import annotations

import os
import signal

from hypothesis import HealthCheck, settings

# Tests that need a GPU say so; a GPU that is there by chance changes nothing for the others.
os.environ.setdefault("TENSOR_ROUND_BACKEND", "numpy")

# A shell starts what runs in the background with SIGINT ignored, and its children inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

# A deprecation is an error in the processes that tests start, too.
os.environ["PYTHONWARNINGS"] = "error::DeprecationWarning,error::PendingDeprecationWarning"

# The first text of a fresh checkout has Hypothesis make a table of all characters: that takes the
# second that drawing may take in all, and is no fault of the strategy that is drawn from.
# On a busy machine any example may take longer than a deadline: pytest-timeout has the limit.
settings.register_profile("suite", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("suite")
