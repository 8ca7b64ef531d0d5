"""A disk that is soon full: a real one where it may be mounted, else a limit on files."""

from __future__ import annotations

import contextlib
import resource
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


@dataclass
class SmallDisk:
    """A folder on it. ``is_mounted`` says that other processes find the disk full, too."""

    folder: Path
    is_mounted: bool

    @contextmanager
    def full(self, but: int = 0) -> Iterator[None]:
        """No byte more can be kept meanwhile, or so many."""
        if not self.is_mounted:
            soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
            resource.setrlimit(resource.RLIMIT_FSIZE, (but, hard))
            try:
                yield
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
            return
        filler = self.folder / "filler"
        with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while file.write(bytes(4096)):
                pass
        with filler.open("rb+") as file:
            file.truncate(filler.stat().st_size - -(-but // 4096) * 4096)
        try:
            yield
        finally:
            filler.unlink()


@contextmanager
def small_disk(folder: Path, nbytes: int = 1 << 20) -> Iterator[SmallDisk]:
    """Such a disk in an empty folder, gone at the end."""
    mount = ["mount", "-t", "tmpfs", "-o", f"size={nbytes}", "tmpfs", str(folder)]
    try:
        is_mounted = subprocess.run(mount, capture_output=True).returncode == 0
    except FileNotFoundError:
        is_mounted = False
    try:
        yield SmallDisk(folder, is_mounted)
    finally:
        if is_mounted:
            # Lazily: a process may be about to end that has a file there.
            subprocess.run(["umount", "--lazy", str(folder)], check=True)
