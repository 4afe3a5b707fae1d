"""PostgreSQL out of a wheel: one server for each data folder, started by the first command that needs it.

The server outlives the command that started it, so no command can take it away from another; :func:`stop` ends it. A
lock on the data folder, which the kernel lets go when its holder dies, makes one command at a time create or start.
What a killed command leaves behind (a half-made cluster, a server still starting) is found and finished by the next.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import psycopg
from filelock import FileLock, Timeout

from core.cluster import PORT, START_SECONDS, SUPERUSER, Cluster, EmbeddedServerFailed
from core.roles import APPLICATION, OWNER


@dataclass(frozen=True)
class Server:
    """A server that runs and is ready."""

    process_id: int
    socket_folder: str

    def url(self, user: str = OWNER, database: str = OWNER) -> str:
        """The address for libpq."""
        return f"postgresql://{user}@/{database}?host={quote(self.socket_folder, safe='')}&port={PORT}"


def start(data: Path) -> Server:
    """The server of the data folder, which is made and started where need be, with its roles and database."""
    server = status(data)
    if server and _answers(server.url()):
        return server
    cluster = Cluster(data)
    with _alone(data):
        if cluster.process() is None:
            cluster.create()
            _launch(cluster)
        server = _when_ready(data)
        _prepare(server)
    return server


def status(data: Path) -> Server | None:
    """The server if one runs and is ready, else nothing."""
    process = Cluster(data).process()
    return Server(process.number, process.socket_folder) if process and process.is_ready else None


def stop(data: Path) -> bool:
    """Stops the server, ending its sessions; false when none was running."""
    cluster = Cluster(data)
    if not cluster.folder.exists():
        return False
    with _alone(data):
        if cluster.process() is None:
            return False
        cluster.halt()
    return True


@contextmanager
def _alone(data: Path) -> Iterator[None]:
    """Holds the folder's lock, and says what the system and the server say as one error of ours."""
    try:
        data.mkdir(parents=True, exist_ok=True)
        with FileLock(data / "postgres.lock", timeout=START_SECONDS + 30):
            yield
    except Timeout as error:
        raise EmbeddedServerFailed(data, "another command has been starting it for minutes") from error
    except (OSError, psycopg.Error) as error:
        raise EmbeddedServerFailed(data, " ".join(str(error).split())) from error


def _launch(cluster: Cluster) -> None:
    try:
        cluster.launch()
    except EmbeddedServerFailed:
        # The server that a killed command was about to start may have come first.
        if cluster.process() is None:
            raise


def _when_ready(data: Path) -> Server:
    """The server once it takes connections; one that a killed command left starting needs waiting for."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        server = status(data)
        if server and _answers(server.url(SUPERUSER, SUPERUSER)):
            return server
        if Cluster(data).process() is None:
            raise EmbeddedServerFailed(data, "the server ended while starting, see postgres/server.log")
        time.sleep(0.05)  # a server tells nobody when it is ready
    raise EmbeddedServerFailed(data, "the server did not become ready")


def _prepare(server: Server) -> None:
    """Roles first, the database last: a database that answers has everything."""
    with psycopg.connect(server.url(SUPERUSER, SUPERUSER), autocommit=True) as connection:
        known = {row[0] for row in connection.execute("SELECT rolname FROM pg_roles")}
        if OWNER not in known:
            connection.execute(f"CREATE ROLE {OWNER} LOGIN")
        if APPLICATION not in known:
            connection.execute(f"CREATE ROLE {APPLICATION} NOLOGIN")
        connection.execute(f"GRANT {APPLICATION} TO {OWNER}")
        if not connection.execute("SELECT FROM pg_database WHERE datname = %s", [OWNER]).fetchall():
            connection.execute(f"CREATE DATABASE {OWNER} OWNER {OWNER}")


def _answers(url: str) -> bool:
    try:
        psycopg.connect(url, connect_timeout=10).close()
    except psycopg.OperationalError:
        return False
    return True
