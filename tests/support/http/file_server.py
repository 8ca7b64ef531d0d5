"""A web server for the files of a folder, with ranges or without."""

from __future__ import annotations

import re
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType


class FileServer:
    """Serves a folder; a context manager. ``sent`` are the bytes of all contents so far."""

    def __init__(self, folder: Path, *, ranges: bool) -> None:
        handler = partial(_Handler, directory=str(folder))
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = False
        _Handler.ranges = ranges
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> FileServer:
        self._thread = threading.Thread(target=self._server.serve_forever, args=[0.02])
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Handler(SimpleHTTPRequestHandler):
    ranges = True

    def do_GET(self) -> None:
        asked = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range", ""))
        path = Path(self.translate_path(self.path))
        if not (self.ranges and asked and path.is_file()):
            super().do_GET()
            return
        data = path.read_bytes()
        first = int(asked[1]) if asked[1] else len(data) - int(asked[2])
        last = int(asked[2]) if asked[1] and asked[2] else len(data) - 1
        part = data[first : last + 1]
        self.send_response(206)
        self.send_header("Content-Range", f"bytes {first}-{first + len(part) - 1}/{len(data)}")
        self.send_header("Content-Length", str(len(part)))
        self.end_headers()
        self.wfile.write(part)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""
