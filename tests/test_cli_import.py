"""`gpu-billing import` from outside: two sums, rejects with their place, and the same table twice."""

from pathlib import Path

import pytest

from tests.commands import Shell

SACCT = """JobID|Account|Start|End|AllocTRES|ReqTRES
101|lab|2026-03-01T10:00:00|2026-03-01T12:00:00|cpu=8,gres/gpu:a100=2|
101.batch|lab|2026-03-01T10:00:00|2026-03-01T12:00:00|cpu=8,gres/gpu:a100=2|
102|lab|Unknown|2026-03-01T12:00:00||gres/gpu:a100=2
103|lab|2026-03-01T10:00:00|2026-03-01T12:00:00|cpu=8|
104|lab|2026-03-02T10:00:00|Unknown|gres/gpu:h100=8|
105|lab|2026-03-02T25:00:00|Unknown|gres/gpu:h100=8|
106|lab|2026-03-02T10:00:00|2026-03-02T09:00:00|gres/gpu:h100=8|
"""


@pytest.fixture
def shell(database_url: str, tmp_path: Path) -> Shell:
    (tmp_path / "jobs.csv").write_text(SACCT)
    return Shell(database_url, tmp_path)


def test_rows_and_events_are_two_sums(shell: Shell) -> None:
    said = shell.run("import", "jobs.csv", "--preset", "slurm", "--time-zone", "Asia/Shanghai")

    assert (said.status, said.err) == (1, "")
    assert said.out.splitlines() == [
        "jobs.csv: 7 rows = 1 finished + 1 running + 1 job step + 1 never ran + 1 no card + 2 rejected",
        "  line 7, column 3 (Start): no such time: hour must be in 0..23: '2026-03-02T25:00:00'",
        "  line 8, column 4 (End): ends before it starts at 2026-03-02T02:00:00Z: '2026-03-02T09:00:00'",
        "events: 3 received = 3 accepted + 0 duplicate + 0 rejected",
    ]


def test_importing_twice_adds_nothing(shell: Shell) -> None:
    words = ("import", "jobs.csv", "--preset", "slurm", "--time-zone", "Asia/Shanghai", "--json")
    first, second = shell.run(*words).json(), shell.run(*words).json()

    assert first["rows"] == second["rows"]
    assert (first["events"]["accepted"], first["events"]["duplicate"]) == (3, 0)
    assert (second["events"]["accepted"], second["events"]["duplicate"]) == (0, 3)


def test_a_job_that_ended_since_adds_its_end(shell: Shell) -> None:
    words = ("import", "jobs.csv", "--preset", "slurm", "--time-zone", "Asia/Shanghai", "--json")
    shell.run(*words)
    ended = SACCT.replace("104|lab|2026-03-02T10:00:00|Unknown", "104|lab|2026-03-02T10:00:00|2026-03-03T10:00:00")
    (shell.folder / "jobs.csv").write_text(ended)

    events = shell.run(*words).json()["events"]

    assert (events["accepted"], events["duplicate"]) == (1, 3)


def test_a_mapping_of_any_table(shell: Shell) -> None:
    (shell.folder / "m.yaml").write_text("""
source: lab
times: {format: epoch}
instance: {column: job}
start: {column: begin}
end: {column: finish}
cards: {column: gpus}
sku: {value: gpu.a}
account: {value: lab}
""")
    given = b"job,begin,finish,gpus\nj1,1772323200,1772326800,2\n"

    said = shell.run("import", "-", "--mapping", "m.yaml", given=given)

    assert (said.status, said.err) == (0, "")
    assert said.out.splitlines()[0] == "-: 1 rows = 1 finished + 0 running + 0 rejected"


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("jobs.csv",), "say what the columns mean: --mapping FILE, or --preset slurm or openb"),
        (("jobs.csv", "--preset", "lsf"), "preset lsf: unknown preset 'lsf': there are openb, slurm"),
        (("jobs.csv", "--preset", "slurm"),
         "preset slurm: name the cluster's time zone (--time-zone): Slurm writes local times without one"),
        (("jobs.csv", "--mapping", "missing.yaml"), "missing.yaml: No such file or directory"),
        (("missing.csv", "--preset", "openb"), "missing.csv: No such file or directory"),
        (("jobs.csv", "--preset", "slurm", "--time-zone", "Mars/Base"),
         "preset slurm: times.time_zone: unknown time zone 'Mars/Base'"),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_one_line(shell: Shell, words: tuple[str, ...], line: str) -> None:
    said = shell.run("import", *words)

    assert (said.status, said.out, said.err) == (2, "", f"gpu-billing: {line}\n")
