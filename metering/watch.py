"""What a watchman asks a process without an HTTP door: does it live, can it work, what has it counted."""

from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest


class Watch:
    """Serves ``/healthz``, ``/readyz`` and ``/metrics`` from a thread of its own; port 0 takes any free one."""

    def __init__(self, host: str, port: int, alive: Callable[[], bool], ready: Callable[[], bool]) -> None:
        self._server = ThreadingHTTPServer((host, port), _handler(alive, ready))
        self._server.daemon_threads = True
        self.port = int(self._server.server_address[1])
        self._thread = Thread(target=self._server.serve_forever, name="watch", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop answering."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _handler(alive: Callable[[], bool], ready: Callable[[], bool]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:  # the library's name
            """Answer one question."""
            if self.path == "/metrics":
                self._answer(HTTPStatus.OK, generate_latest(), CONTENT_TYPE_LATEST)
            elif self.path == "/healthz":
                self._state(alive(), "alive")
            elif self.path == "/readyz":
                self._state(ready(), "ready")
            else:
                self._answer(HTTPStatus.NOT_FOUND, b"", "text/plain")

        def _state(self, good: bool, word: str) -> None:
            status = HTTPStatus.OK if good else HTTPStatus.SERVICE_UNAVAILABLE
            self._answer(status, f'{{"state": "{"" if good else "not "}{word}"}}\n'.encode(), "application/json")

        def _answer(self, status: HTTPStatus, body: bytes, kind: str) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Whoever asks every few seconds fills no log."""

    return Handler
