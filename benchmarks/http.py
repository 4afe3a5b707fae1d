"""``python -m benchmarks.http``: requests and events a second through ``gpu-billing serve``, beside the recorder alone.

Sender, server and database share the machine; each figure has fresh books and a server of its own.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from itertools import count
from pathlib import Path
from time import perf_counter

from benchmarks.recording import record
from benchmarks.server import fresh_books, server
from benchmarks.stream import arrivals, lines
from core.database import connect
from core.key_store import add_key
from core.keys import INGEST, id_in, key_digest, new_key
from metering.lines import Line

PEPPER = "a pepper of the benchmarks, nobody's own"
EVENTS = 60_000
CASES = (
    (1, 1, 1, 1_000),
    (1, 24, 1, 6_000),
    (2, 24, 1, 6_000),
    (500, 1, 1, EVENTS),
    (500, 4, 2, EVENTS),
    (5000, 2, 1, EVENTS),
)
"""Events of a request, connections, keys, events in all."""


def main() -> None:
    """Measure and print."""
    stream = lines(arrivals(2_000, 200))[:EVENTS]
    with server() as running:
        names = count()
        print("| events of a request | connections | keys | requests/s | events/s | of the recorder alone |")
        print("|---:|---:|---:|---:|---:|---:|")
        for size, connections, keys, events in CASES:
            alone = EVENTS / record(fresh_books(running, f"http_{next(names)}"), "file:bench", stream)
            seconds = send(fresh_books(running, f"http_{next(names)}"), stream[:events], size, connections, keys)
            requests = -(-events // size)
            rates = f"{requests / seconds:,.0f} | {events / seconds:,.0f} | {events / seconds / alone:.2f}"
            print(f"| {size} | {connections} | {keys} | {rates} |", flush=True)


def send(url: str, stream: Sequence[Line], size: int, connections: int, keys: int) -> float:
    """Seconds in which all requests are answered, each connection with every so-manyth of them."""
    bodies = [b"[" + b",".join(line.raw for line in stream[n : n + size]) + b"]" for n in range(0, len(stream), size)]
    owned = [_key(url) for _ in range(keys)]
    with _serving(url) as address, ThreadPoolExecutor(connections) as senders:
        _share(address, owned[0], [b"[]"] * 20)
        begun = perf_counter()
        shares = [bodies[place::connections] for place in range(connections)]
        for each in [senders.submit(_share, address, owned[n % keys], share) for n, share in enumerate(shares)]:
            each.result()
        return perf_counter() - begun


def _share(address: tuple[str, int], key: str, bodies: Sequence[bytes]) -> None:
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    with closing(HTTPConnection(*address)) as connection:
        for body in bodies:
            connection.request("POST", "/v1/events", body, headers)
            answer = connection.getresponse()
            answer.read()
            assert answer.status == 200, answer.status


def _key(url: str) -> str:
    key = new_key()
    with closing(connect(url)) as db, db.transaction():
        add_key(db, str(id_in(key)), key_digest(PEPPER.encode(), key), "bench", INGEST, None)
    return key


@contextmanager
def _serving(url: str) -> Iterator[tuple[str, int]]:
    given = {"GPU_BILLING_DATABASE_URL": url, "GPU_BILLING_PEPPER": PEPPER}
    command = [str(Path(sys.executable).parent / "gpu-billing"), "serve", "--port=0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, **given}) as process:
        assert process.stderr is not None
        found = next(match for line in process.stderr if (match := re.search(r"http://([0-9.]+):(\d+)", line)))
        rest = ThreadPoolExecutor(1).submit(process.stderr.read)
        try:
            yield found[1], int(found[2])
        finally:
            process.terminate()
            rest.result()


if __name__ == "__main__":
    main()
