"""The embedded server: shared by commands at once, and never blocked by one that was killed."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from sqlalchemy import Engine, text

from core import embedded
from core.cluster import EmbeddedServerFailed
from core.config import Settings
from core.database import connect, database

COMMAND = Path(sys.executable).parent / "gpu-billing"


def environment(data: Path, **more: str) -> dict[str, str]:
    """Of a command whose settings are these and no others."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("GPU_BILLING_")}
    return {**kept, "GPU_BILLING_DATA": str(data), **more}


def run(data: Path, *words: str, **more: str) -> str:
    """What a command prints; it must succeed."""
    done = subprocess.run([COMMAND, *words], env=environment(data, **more), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def spawn(data: Path, *words: str) -> subprocess.Popen[bytes]:
    """A command in a group of its own, as a shell starts it."""
    return subprocess.Popen([COMMAND, *words], env=environment(data), start_new_session=True, stdout=subprocess.DEVNULL)


def test_commands_at_once_share_one_server(data: Path) -> None:
    commands = [spawn(data, "database", "migrate") for _ in range(3)]

    assert [each.wait() for each in commands] == [0, 0, 0]
    server = embedded.status(data)
    assert server is not None
    assert embedded.start(data) == server


def test_server_outlives_the_command_and_stops_when_told(data: Path) -> None:
    run(data, "database", "migrate")

    assert run(data, "database", "status").startswith(f"embedded in {data}: running\n")
    assert run(data, "database", "stop") == "stopped\n"
    assert run(data, "database", "stop") == "no embedded server was running\n"
    assert run(data, "database", "status") == f"embedded in {data}: stopped\n"


@pytest.mark.parametrize(
    "stage", ["postgres.new-*", "postgres.new-*/PG_VERSION", "postgres/PG_VERSION", "postgres/postmaster.pid"]
)
def test_command_killed_while_it_starts_the_server_blocks_nothing(data: Path, stage: str) -> None:
    killed = spawn(data, "database", "migrate")
    while killed.poll() is None and not list(data.glob(stage)):
        time.sleep(0.001)
    os.killpg(killed.pid, signal.SIGKILL)
    assert killed.wait() == -signal.SIGKILL

    run(data, "database", "migrate")

    assert sorted(each.name for each in data.glob("postgres*")) == ["postgres", "postgres.lock"]


def test_command_killed_inside_a_transaction_blocks_nothing(data: Path) -> None:
    script = (
        "from core import embedded; from core.database import connect; import sys, time, pathlib\n"
        "c = connect(embedded.start(pathlib.Path(sys.argv[1])).url(), as_owner=True)\n"
        "c.execute('CREATE TABLE held (a int)'); c.commit()\n"
        "c.execute('LOCK TABLE held'); print('locked', flush=True); time.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script, str(data)], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"locked\n"
        holder.kill()

    with connect(embedded.start(data).url(), as_owner=True) as connection:
        connection.execute("SET lock_timeout = '5s'")
        connection.execute("LOCK TABLE held")


def test_killed_server_is_started_again(data: Path) -> None:
    server = embedded.start(data)
    process = psutil.Process(server.process_id)
    process.kill()
    psutil.wait_procs([process], timeout=10)

    assert embedded.start(data).process_id != server.process_id


def test_process_number_given_to_a_stranger_is_not_taken_for_the_server(data: Path) -> None:
    embedded.start(data)
    file = data / "postgres" / "postmaster.pid"
    lines = file.read_text().splitlines()
    embedded.stop(data)
    file.write_text("\n".join([str(os.getpid()), *lines[1:]]))

    assert embedded.status(data) is None
    assert embedded.start(data).process_id != os.getpid()


def test_long_path_gets_a_short_socket(data: Path) -> None:
    deep = data / ("long" * 30)
    server = embedded.start(deep)
    try:
        connect(server.url()).close()
        assert len(server.socket_folder) < 80
    finally:
        embedded.stop(deep)
    assert not Path(server.socket_folder).exists()


def test_folder_of_something_else_is_left_alone(data: Path) -> None:
    (data / "postgres").mkdir(parents=True)
    (data / "postgres" / "notes.txt").write_text("mine")

    with pytest.raises(EmbeddedServerFailed, match="holds other things than a database"):
        embedded.start(data)

    assert (data / "postgres" / "notes.txt").read_text() == "mine"


def test_address_switches_to_a_real_server(data: Path, database_url: str) -> None:
    said = run(data, "database", "status", GPU_BILLING_DATABASE_URL=database_url)

    assert said.startswith("a server given by its address\n")
    assert not data.exists()
    assert database(Settings(database_url=database_url, data=data)) == database_url


def test_connections_work_as_the_application_in_utc(database_url: str, engine: Engine) -> None:
    asked = "SELECT current_user::text, current_setting('TimeZone'), current_setting('application_name')"
    with connect(database_url) as connection:
        connection.rollback()
        assert connection.execute(asked).fetchone() == ("gpu_billing_app", "UTC", "gpu-billing")
    with engine.connect() as pooled:
        assert tuple(pooled.execute(text(asked)).one()) == ("gpu_billing_app", "UTC", "gpu-billing")
