"""What the tests of the HTTP door share: keys, a client inside the process, and a server in a process of its own."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from threading import Thread
from typing import Any

from fastapi.testclient import TestClient

from api.app import create_app
from core.clock import Clock
from core.database import connect
from core.key_store import add_key
from core.keys import INGEST, id_in, key_digest, new_key

PEPPER = b"a pepper of the tests, long enough to pass"
NOW = datetime(2026, 12, 1, tzinfo=UTC)
SINGLE = "application/cloudevents+json"
BATCH = "application/cloudevents-batch+json"
JSON = "application/json"
LINES = "application/x-ndjson"


def key_of(url: str, *, scope: str = INGEST, expires: datetime | None = None, pepper: bytes = PEPPER) -> str:
    """A key as its owner has it; what the database knows of it is only its hash."""
    key = new_key()
    key_id = id_in(key)
    assert key_id is not None
    with closing(connect(url)) as db, db.transaction():
        add_key(db, key_id, key_digest(pepper, key), "tests", scope, expires)
    return key


def bearing(key: str, media: str = JSON, **more: str) -> dict[str, str]:
    """The headers of a request with a key."""
    told = {name.replace("_", "-"): value for name, value in more.items()}
    return {"authorization": f"Bearer {key}", "content-type": media, **told}


@contextmanager
def client_of(url: str, clock: Clock = lambda: NOW, recorders: int = 2) -> Iterator[TestClient]:
    """A client of an application in this process; what goes wrong inside is answered, not raised."""
    with TestClient(create_app(url, PEPPER, recorders, clock), raise_server_exceptions=False) as client:
        yield client


def batch_of(events: Sequence[bytes]) -> bytes:
    """Events as a JSON array, each as it is."""
    return b"[" + b",".join(events) + b"]"


def counts(answer: Mapping[str, Any]) -> tuple[int, int, int, int]:
    """Received, accepted, duplicate, rejected."""
    return (answer["received"], answer["accepted"], answer["duplicate"], answer["rejected"])


class Server:
    """`gpu-billing serve` in a process of its own, and what it says."""

    def __init__(self, url: str, processes: int = 1) -> None:
        command = [
            str(Path(sys.executable).parent / "gpu-billing"),
            "serve",
            "--port=0",
            f"--workers={processes}",
        ]
        given = {"GPU_BILLING_DATABASE_URL": url, "GPU_BILLING_PEPPER": PEPPER.decode()}
        environment = {**os.environ, **given}
        self.process = subprocess.Popen(
            command, stderr=subprocess.PIPE, text=True, env=environment, start_new_session=True
        )
        self.said: list[str] = []
        self.address = self._address(processes)
        self._listener = Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _address(self, processes: int) -> str:
        """Where it listens, once every process of it does."""
        assert self.process.stderr is not None
        address, ready = "", 0
        for line in self.process.stderr:
            self.said.append(line)
            if found := re.search(r"running on (http://[0-9.:]+)", line):
                address = found.group(1)
            ready += "Application startup complete" in line
            if address and ready == processes:
                return address
        raise AssertionError("".join(self.said))

    def _listen(self) -> None:
        assert self.process.stderr is not None
        self.said.extend(self.process.stderr)

    def logged(self) -> list[dict[str, Any]]:
        """Its log lines; each is one JSON object."""
        return [json.loads(line) for line in self.said]

    def end(self, number: int) -> int:
        """Send it a signal, with SIGKILL to all its processes, and wait for its status."""
        if number == signal.SIGKILL:
            os.killpg(self.process.pid, number)
        else:
            self.process.send_signal(number)
        status = self.process.wait(60)
        self._listener.join(10)
        assert self.process.stderr is not None
        self.process.stderr.close()
        return status


@contextmanager
def serving(url: str, processes: int = 1) -> Iterator[Server]:
    """A server for the length of a test, also when it fails."""
    server = Server(url, processes)
    try:
        yield server
    finally:
        if server.process.poll() is None:
            server.end(signal.SIGKILL)
