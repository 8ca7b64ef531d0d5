"""The content of requests and responses, in no protocol's terms."""

from __future__ import annotations

from collections.abc import Sequence

#: A content in its order. Large parts are sent from where they lie.
Parts = Sequence[bytes | memoryview]
