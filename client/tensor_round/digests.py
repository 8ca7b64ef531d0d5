"""Another name of :mod:`tensor_round.contract.digests`."""

from __future__ import annotations

from .contract.digests import DIGESTS as DIGESTS
