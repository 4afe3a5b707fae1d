"""`gpu-billing ingest` from outside: sums, statuses, files that are none, two at once, killed and interrupted."""

import json
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from core.database import connect
from metering.fleet import fleet_events
from tests.commands import Shell
from tests.conftest import _made as made

EXAMPLES = Path(__file__).parent.parent / "examples"
AS_OF = "2026-04-01T00:00:00+08:00"
BAD = b'{"specversion": "1.0", "id": "b", "source": "s"}'


@pytest.fixture
def shell(database_url: str, tmp_path: Path) -> Shell:
    return Shell(database_url, tmp_path)


@pytest.fixture(scope="module")
def fleet() -> list[bytes]:
    return list(fleet_events("2026-03", seed=3, instances=25))


def start(number: int) -> bytes:
    return json.dumps({
        "specversion": "1.0", "id": f"e{number}", "source": "/h", "type": "instance.started", "subject": f"i-{number}",
        "time": "2026-03-01T00:00:00Z", "data": {"account": "a", "sku": "gpu.a", "cards": 1},
    }).encode()  # fmt: skip


def ledger(url: str) -> list[tuple[Any, ...]]:
    """The ledger net of reversals: seconds by instance, series, class, price and day."""
    with connect(url) as db:
        return db.execute(
            "SELECT subject, account, project, sku, plan, region, kind, amount, day, run, sum(quantity) FROM entry e"
            " JOIN instance i ON i.id = instance_id JOIN series s ON s.id = series_id JOIN price p ON p.id = price_id"
            " GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 HAVING sum(quantity) <> 0 ORDER BY 1, 2, 3, 4, 5, 6, 7, 8, 9, 10"
        ).fetchall()


def bills(shell: Shell) -> Any:
    return shell.run("bills", "--as-of", AS_OF, "--json").json()["bills"]


def apply_examples(shell: Shell) -> None:
    contracts = sorted(str(each) for each in (EXAMPLES / "contracts").iterdir())
    assert shell.run("terms", "apply", str(EXAMPLES / "price-book.yaml"), *contracts).status == 0


# --- what it says ---------------------------------------------------------------------------------------------------


def test_sums_add_up_and_rejects_are_told(shell: Shell) -> None:
    shell.write("a.jsonl", [start(1), BAD, start(2), start(1), start(3).replace(b'"cards": 1', b'"cards": "1"')])
    shell.write("b.jsonl", [start(2), start(4)])

    said = shell.run("ingest", "a.jsonl", "b.jsonl")

    assert (said.status, said.err) == (0, "")
    assert said.out.splitlines() == [
        "a.jsonl: 5 received = 2 accepted + 1 duplicate + 2 rejected",
        "  line 2 (b): malformed: event: object missing required field `type`",
        "  line 5 (e3): malformed: data.cards: expected `int`, got `str`",
        "b.jsonl: 2 received = 1 accepted + 1 duplicate + 0 rejected",
        "in all: 7 received = 3 accepted + 2 duplicate + 2 rejected",
    ]


def test_strict_tells_by_its_status(shell: Shell) -> None:
    shell.write("a.jsonl", [start(1), BAD])
    shell.write("b.jsonl", [start(1), start(2)])

    assert shell.run("ingest", "--strict", "a.jsonl").status == 1
    assert shell.run("ingest", "--strict", "b.jsonl").status == 0


def test_more_rejects_than_a_person_reads_are_counted(shell: Shell) -> None:
    shell.write("a.jsonl", [b"{%d" % n for n in range(1_234)])

    said = shell.run("ingest", "a.jsonl")

    assert len(said.out.splitlines()) == 22
    assert said.out.splitlines()[-1] == "  and 1,214 more, all in the table of rejects"


def test_unusable_files_do_not_stop_the_others(shell: Shell) -> None:
    (shell.folder / "folder").mkdir()
    (shell.folder / "packed").write_bytes(b"\x1f\x8b\x08\x00")
    (shell.folder / "empty").touch()
    (shell.folder / "wide").write_bytes(start(1).decode().encode("utf-16"))
    shell.write("good.jsonl", [start(1)])

    said = shell.run("ingest", "missing", "folder", "packed", "empty", "wide", "good.jsonl")

    assert (said.status, said.out) == (2, "good.jsonl: 1 received = 1 accepted + 0 duplicate + 0 rejected\n")
    assert said.err.splitlines() == [
        "gpu-billing: missing: No such file or directory",
        "gpu-billing: folder: Is a directory",
        "gpu-billing: packed: the file is compressed with gzip; unpack it first",
        "gpu-billing: empty: the file is empty",
        "gpu-billing: wide: the file is UTF-16 or UTF-32; events are UTF-8",
    ]


def test_standard_input_and_json(shell: Shell) -> None:
    said = shell.run("ingest", "-", "--json", given=start(1) + b"\n" + BAD + b"\n" + start(2))

    reject = {"line": 2, "id": "b", "reason": "malformed", "detail": "event: object missing required field `type`"}
    sums = {"received": 3, "accepted": 2, "duplicate": 0, "rejected": 1}
    assert said.json() == {
        "files": [{"file": "-", **sums, "rejects": [reject], "more_rejects": 0}], **sums, "unusable": []
    }  # fmt: skip


def test_a_name_of_any_bytes(shell: Shell) -> None:
    (shell.folder / "\udcff[red]\n.jsonl").write_bytes(start(1))

    said = shell.run("ingest", "\udcff[red]\n.jsonl")

    assert (said.status, said.err) == (0, "")
    assert "1 received = 1 accepted" in said.out


def test_bills_are_those_of_the_dry_run(shell: Shell, fleet: list[bytes]) -> None:
    shell.write("fleet.jsonl", fleet)
    contract = EXAMPLES / "contracts" / "hailan-llm.yaml"
    shell.run("ingest", "fleet.jsonl")
    assert shell.run("terms", "apply", str(EXAMPLES / "price-book.yaml"), str(contract)).status == 0

    options = ("--price-book", str(EXAMPLES / "price-book.yaml"), "--contract", str(contract))
    rated = shell.run("rate", *options, "--events", "fleet.jsonl", "--as-of", AS_OF, "--json").json()
    assert bills(shell) == rated["bills"]
    own = shell.run("bills", "--account", "hailan-llm", "--month", "2026-03", "--as-of", AS_OF, "--json").json()
    assert own["bills"] == [b for b in rated["bills"] if (b["account"], b["month"]) == ("hailan-llm", "2026-03")]
    table = shell.run("bills", "--as-of", AS_OF).out
    assert all(f"│ {bill['account']} " in table for bill in rated["bills"])
    assert shell.run("verify").status == 0


# --- at once, killed, interrupted -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def undisturbed(
    server_url: str, template_url: str, tmp_path_factory: pytest.TempPathFactory, fleet: list[bytes]
) -> tuple[Any, Any]:
    """The ledger and the bills that the fleet comes to when nothing goes wrong."""
    with made(server_url, template_url) as url:
        shell = Shell(url, tmp_path_factory.mktemp("undisturbed"))
        apply_examples(shell)
        shell.write("fleet.jsonl", fleet)
        assert shell.run("ingest", "fleet.jsonl").status == 0
        return ledger(url), bills(shell)


def test_two_at_once_of_overlapping_files(shell: Shell, fleet: list[bytes], undisturbed: tuple[Any, Any]) -> None:
    third = len(fleet) // 3
    apply_examples(shell)
    shell.write("first.jsonl", fleet[: 2 * third])
    shell.write("second.jsonl", fleet[third:])

    both = [shell.start("ingest", name, "--json", "--batch", "50") for name in ("first.jsonl", "second.jsonl")]
    found = [(json.loads(each.communicate()[0]), each.returncode) for each in both]

    assert [status for _, status in found] == [0, 0]
    assert [sums["received"] for sums, _ in found] == [2 * third, len(fleet) - third]
    with connect(shell.url) as db:
        sums = db.execute("SELECT sum(accepted) - sum(heartbeats) FROM batch").fetchone()
        assert sums == db.execute("SELECT count(*) FROM event").fetchone()
    assert sum(sums["rejected"] for sums, _ in found) == 0
    assert (ledger(shell.url), bills(shell)) == undisturbed


RECORDED = "SELECT count(*) FROM batch b JOIN door d ON d.id = door_id WHERE name LIKE 'file:%'"


def ended_after(shell: Shell, process: subprocess.Popen[bytes], batches: int, how: signal.Signals) -> list[bytes]:
    """Waits until some batches are recorded, then ends the process; returns what it wrote."""
    with connect(shell.url) as db:
        db.autocommit = True
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and process.poll() is None:
            row = db.execute(RECORDED).fetchone()
            if row and row[0] >= batches:
                break
            time.sleep(0.002)
    process.send_signal(how)
    return list(process.communicate(timeout=60))


@pytest.mark.parametrize("batches", [1, 7])
def test_killed_and_run_again(shell: Shell, fleet: list[bytes], undisturbed: tuple[Any, Any], batches: int) -> None:
    apply_examples(shell)
    shell.write("fleet.jsonl", fleet)

    process = shell.start("ingest", "fleet.jsonl", "--batch", "20")
    ended_after(shell, process, batches, signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    said = shell.run("ingest", "fleet.jsonl", "--json").json()

    assert said["received"] == len(fleet) == said["accepted"] + said["duplicate"]
    assert said["duplicate"] >= 20 * batches - len(fleet) // 10  # heartbeats are no duplicates
    assert (ledger(shell.url), bills(shell)) == undisturbed
    assert shell.run("verify").status == 0


def test_terms_that_come_while_events_stream_in(shell: Shell, fleet: list[bytes], undisturbed: tuple[Any, Any]) -> None:
    shell.write("fleet.jsonl", fleet)

    process = shell.start("ingest", "fleet.jsonl", "--batch", "20")
    apply_examples(shell)
    process.communicate()

    assert process.returncode == 0
    assert (ledger(shell.url), bills(shell)) == undisturbed
    assert shell.run("verify").status == 0


def test_interrupted_leaves_whole_batches(shell: Shell, fleet: list[bytes]) -> None:
    shell.write("fleet.jsonl", fleet)

    process = shell.start("ingest", "fleet.jsonl", "--batch", "20")
    out, err = ended_after(shell, process, 3, signal.SIGINT)

    assert (process.returncode, err) == (130, b"")
    with connect(shell.url) as db:
        rows = db.execute("SELECT received FROM batch").fetchall()
    assert {row[0] for row in rows} == {20}
    counted = int(out.decode().split(": ")[1].split()[0].replace(",", ""))
    assert counted in (20 * len(rows), 20 * len(rows) - 20)  # the last one may have been recorded, and not counted yet
