"""How this interpreter was built: that decides a third of a small request's time.

As a program it exits with 0 if this interpreter can make the bench's environment and was optimized
by a profile (PGO), as the images' is.
"""

from __future__ import annotations

import sys
import sysconfig
from importlib.util import find_spec

#: What configure calls them.
OPTIONS = {"--enable-optimizations": "PGO", "--with-lto": "LTO"}
#: Debian and Ubuntu build with both by their own rules, and remove the traces from sysconfig. This
#: name of an installation scheme is theirs.
DEBIAN = "deb_system"


def build() -> str:
    """Whether it was built with PGO and LTO, in words."""
    if DEBIAN in sysconfig.get_scheme_names():
        return "built by Debian with PGO and LTO"
    given = str(sysconfig.get_config_var("CONFIG_ARGS") or "").replace("'", "").split()
    names = [option.partition("=")[0] for option in given if not option.endswith("=no")]
    found = [word for option, word in OPTIONS.items() if option in names]
    return "built with " + " and ".join(found) if found else "built without PGO and LTO"


def is_optimized() -> bool:
    """Whether it was built with PGO."""
    return "with PGO" in build()


if __name__ == "__main__":
    # Debian's python3 has no ensurepip without python3-venv.
    usable = sys.version_info >= (3, 11) and find_spec("ensurepip") is not None
    sys.exit(not (usable and is_optimized()))
