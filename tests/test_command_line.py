"""Whatever goes wrong, a person reads one line and a script gets a status."""

import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
import typer

from cli import main
from core.errors import BillingError


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> typer.Typer:
    """An application to which a test adds the command that goes wrong."""
    app = typer.Typer(rich_markup_mode=None, add_completion=False)
    monkeypatch.setattr(main, "app", app)
    return app


def run_with(failing: typer.Typer, error: BaseException) -> int:
    @failing.command()
    def fail() -> None:
        raise error

    return main.run([])


@pytest.mark.parametrize(
    ("error", "status", "line"),
    [
        (BillingError("acct-1 has no contract"), 2, "gpu-billing: acct-1 has no contract\n"),
        (typer.Exit(1), 1, ""),
        (KeyboardInterrupt(), 130, ""),
        (FileNotFoundError(2, "No such file", "a.csv"), 2, "gpu-billing: [Errno 2] No such file: 'a.csv'\n"),
        (
            psycopg.OperationalError("the connection is lost\nmore"),
            2,
            "gpu-billing: database: the connection is lost\n",
        ),
        (
            ZeroDivisionError("by zero\nand more"),
            2,
            "gpu-billing: internal error: ZeroDivisionError: by zero (set GPU_BILLING_DEBUG=1 for the traceback)\n",
        ),
    ],
)
def test_an_error_is_one_line(
    failing: typer.Typer, capsys: pytest.CaptureFixture[str], error: BaseException, status: int, line: str
) -> None:
    assert run_with(failing, error) == status
    assert capsys.readouterr().err == line


def test_traceback_is_there_for_who_asks(
    failing: typer.Typer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPU_BILLING_DEBUG", "1")

    assert run_with(failing, ZeroDivisionError("by zero")) == 2
    assert "Traceback (most recent call last)" in capsys.readouterr().err


def test_wrong_words_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["xyzzy"]) == 2
    assert capsys.readouterr().err == "gpu-billing: No such command 'xyzzy'. See 'gpu-billing --help'.\n"


def test_version_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["--version"]) == 0
    assert main.run([]) == 0
    said = capsys.readouterr().out
    assert said.startswith("gpu-billing 0.")
    assert "database" in said


def test_a_reader_that_leaves_is_no_error() -> None:
    command = Path(sys.executable).parent / "gpu-billing"
    with subprocess.Popen([command, "--help"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        said = process.stderr.read()
    assert said == b""
    assert process.returncode == main.READER_LEFT
