"""Apache Kafka itself as a process of ours, for the demo, tests and benchmarks: one KRaft node, gone with its parent.

Its folder keeps settings, log and `server.log`. A broker of the same folder finds what it had written, whether it was
stopped or killed. Nothing here is meant for production: one node, no encryption, reachable from this machine only.
"""

import base64
import os
import random
import signal
import socket
import subprocess
import time
import uuid
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from filelock import FileLock, Timeout
from kafka import KafkaAdminClient
from kafka.errors import KafkaError

from core.broker_jars import FOLDER, jars, java
from core.errors import BillingError

HOST = "127.0.0.1"
START_SECONDS = 120
STOP_SECONDS = 60
MESSAGE_BYTES_MAX = 4 << 20
SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "log.dirs": "log",
    "auto.create.topics.enable": "false",  # a topic's partitions are decided, not left to whoever comes first
    "message.max.bytes": str(MESSAGE_BYTES_MAX),
    "log.retention.ms": "-1",
    "broker.heartbeat.interval.ms": "500",
    "broker.session.timeout.ms": "4000",  # after a crash it waits so long for itself to be gone
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",  # so that a test need not wait long for a dead consumer
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "log.cleaner.dedupe.buffer.size": str(16 << 20),
}
MEMORY = ("-Xms256m", "-Xmx512m")

# The shell holds a pipe from us. When we die, however, it reads the end of it and takes the broker along.
GUARD = """
log=$1; shift; exec 3<&0
"$@" </dev/null >>"$log" 2>&1 3<&- &
broker=$!
{ cat <&3; kill -9 "$broker"; } >/dev/null 2>&1 &
echo "$broker"; exec 0<&- 1>&- 3<&-
wait "$broker"
"""


class BrokerFailed(BillingError):
    """The embedded broker cannot be made or started."""

    def __init__(self, folder: Path, reason: str) -> None:
        super().__init__(f"embedded Kafka in {folder}: {reason}")


class EmbeddedBroker:
    """A broker in a folder, on two free ports that it keeps for as long as the object lives."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port, self._controller_port = _free_ports()
        self._guard: subprocess.Popen[str] | None = None
        self._process_id = 0
        self._lock = FileLock(folder / "lock", timeout=0, thread_local=False)

    @property
    def bootstrap(self) -> str:
        """The address for clients."""
        return f"{HOST}:{self.port}"

    @property
    def is_running(self) -> bool:
        """Whether its process lives."""
        return self._guard is not None and self._guard.poll() is None

    def start(self) -> None:
        """Starts it and waits until it answers; raises ``BrokerFailed``, or ``BrokerUnavailable`` without Java."""
        if self.is_running:
            return
        self._take_folder()
        try:
            self._write_settings()
            if not (self.folder / "log" / "meta.properties").exists():
                self._format()
            self._launch()
            self._wait_until_ready()
        except BaseException:  # also when interrupted: nobody else would stop it
            self.kill()
            raise

    def stop(self) -> None:
        """Stops it as its operator would, and waits until it is gone."""
        if self._guard is not None and self.is_running:
            os.kill(self._process_id, signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                self._guard.wait(STOP_SECONDS)
        self.kill()

    def kill(self) -> None:
        """Ends it at once, as a crash would."""
        if self._guard is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._guard.pid, signal.SIGKILL)
            self._guard.communicate()
            self._guard = None
        self._lock.release()

    def restart(self) -> None:
        """Stops and starts it, on the same port with the same log."""
        self.stop()
        self.start()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    @property
    def _log(self) -> Path:
        return self.folder / "server.log"

    def _take_folder(self) -> None:
        """Kafka locks its log as well, but a second broker that finds it locked has upset the first by then."""
        try:
            (self.folder / "tmp").mkdir(parents=True, exist_ok=True)
            self._lock.acquire()
        except Timeout as error:
            raise BrokerFailed(self.folder, "another command runs a broker there") from error
        except OSError as error:
            raise BrokerFailed(self.folder, error.strerror or str(error)) from error

    def _write_settings(self) -> None:
        own = {
            "listeners": f"PLAINTEXT://{HOST}:{self.port},CONTROLLER://{HOST}:{self._controller_port}",
            "advertised.listeners": f"PLAINTEXT://{HOST}:{self.port}",
            "controller.quorum.voters": f"1@{HOST}:{self._controller_port}",
        }
        lines = [f"{name}={value}\n" for name, value in (SETTINGS | own).items()]
        (self.folder / "server.properties").write_text("".join(lines))

    def _format(self) -> None:
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        words = ("format", f"--cluster-id={cluster}", "--config=server.properties")
        command = self._java("kafka.tools.StorageTool", *words)
        with self._log.open("a") as log:
            done = subprocess.run(  # noqa: S603  # our own words
                command, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=False
            )
        if done.returncode:
            raise BrokerFailed(self.folder, self._last_words())

    def _launch(self) -> None:
        command = ["/bin/sh", "-c", GUARD, "guard", "server.log", *self._java("kafka.Kafka", "server.properties")]
        self._guard = subprocess.Popen(  # noqa: S603  # our own words
            command, cwd=self.folder, text=True, start_new_session=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        assert self._guard.stdout is not None
        self._process_id = int(self._guard.stdout.readline())

    def _java(self, *words: str) -> list[str]:
        logging = f"-Dlog4j2.configurationFile={FOLDER / 'log4j2.properties'}"
        return [java(), *MEMORY, logging, "-Djava.io.tmpdir=tmp", "-cp", f"{jars()}/*", *words]

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if not self.is_running:
                raise BrokerFailed(self.folder, self._last_words())
            if _cluster_at(self.port) == self._cluster():
                return
            time.sleep(0.1)  # a broker tells nobody when it is ready
        raise BrokerFailed(self.folder, f"it was not ready after {START_SECONDS} s, see {self._log}")

    def _cluster(self) -> str:
        lines = (self.folder / "log" / "meta.properties").read_text().splitlines()
        return dict(line.split("=", 1) for line in lines if not line.startswith("#"))["cluster.id"]

    def _last_words(self) -> str:
        lines = [line.strip() for line in self._log.read_text(errors="replace").splitlines()]
        said = [line for line in lines if "Exception" in line and not line.startswith("at ")] or lines or ["it ended"]
        return f"{said[-1]} (see {self._log})"


def _cluster_at(port: int) -> str | None:
    """The cluster of a broker that takes requests and has let itself in, so that topics can be made; else nothing."""
    try:
        socket.create_connection((HOST, port), timeout=1).close()
        with KafkaAdminClient(bootstrap_servers=f"{HOST}:{port}", bootstrap_timeout_ms=5_000) as admin:
            found = admin.describe_cluster()
    except (OSError, KafkaError):
        return None
    return found["cluster_id"] if any(not each["is_fenced"] for each in found["brokers"]) else None


def _free_ports() -> tuple[int, int]:
    """Two ports below those that the system hands out.

    From among those a client that keeps knocking on a stopped broker's port may be given that very port as its own,
    talk to itself, and keep the broker from coming back.
    """
    found: list[int] = []
    for port in random.sample(range(20_000, 32_000), 1_000):
        with socket.socket() as probe, suppress(OSError):
            probe.bind((HOST, port))
            found.append(port)
        if len(found) == 2:
            return found[0], found[1]
    raise OSError("no free port between 20000 and 32000")
