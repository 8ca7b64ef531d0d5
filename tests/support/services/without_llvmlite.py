"""``tensor-round-service`` as it is installed without the extra ``compiled``, run as a module.

To compile the kernels takes half a second of a core at every start.
"""

from __future__ import annotations

import sys

sys.modules["llvmlite"] = None  # type: ignore[assignment]  # its import fails

if __name__ == "__main__":
    from tensor_round_service.__main__ import main

    main()
