"""What holds for every ring of tests."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

# Tests that need a GPU say so; a GPU that is there by chance changes nothing for the others.
os.environ.setdefault("TENSOR_ROUND_BACKEND", "numpy")

# The first text of a fresh checkout has Hypothesis make a table of all characters: that takes the
# second that drawing may take in all, and is no fault of the strategy that is drawn from.
# On a busy machine any example may take longer than a deadline: pytest-timeout has the limit.
settings.register_profile("suite", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("suite")
