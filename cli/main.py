"""The command line's entry: one line and a status for whatever goes wrong, never a traceback.

Status: 0 done, 1 done but something needs a person, 2 could not be done, 130 interrupted, 141 a pipe's reader left.
"""

import os
import sys
import traceback
from io import TextIOWrapper
from typing import Annotated

import typer

from cli import (
    bills,
    close,
    consume,
    database,
    dead_letters,
    demo,
    import_table,
    ingest,
    keys,
    produce,
    rate,
    serve,
    status,
    terms,
)
from core.errors import BillingError

FAILED = 2
INTERRUPTED = 128 + 2
READER_LEFT = 128 + 13

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # loading rich costs every command a tenth of a second
)
app.add_typer(database.app, name="database")
app.add_typer(terms.app, name="terms")
app.add_typer(keys.app, name="keys")
app.add_typer(dead_letters.app, name="dead-letters")
app.command()(rate.rate)
app.command()(ingest.ingest)
app.command("import")(import_table.import_table)
app.command()(bills.bills)
app.command()(close.close)
app.command()(close.invoices)
app.command()(close.verify)
app.command()(demo.demo)
app.command()(produce.produce)
app.command()(produce.fleet)
app.command()(serve.serve)
app.command()(consume.consume)
app.command()(status.status)


def main() -> None:
    """Runs one command and ends the process with its status."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # a name that the terminal's encoding lacks is no reason to end
            stream.reconfigure(errors="backslashreplace")
    sys.exit(run(sys.argv[1:]))


def run(words: list[str]) -> int:
    """Runs one command and returns its status."""
    try:
        status = app(words, prog_name="gpu-billing", standalone_mode=False)
        sys.stdout.flush()
    except (BrokenPipeError, SystemExit) as error:  # typer makes the first into the second
        if isinstance(error, SystemExit) and not isinstance(error.__context__, BrokenPipeError):
            raise
        _abandon_output()
        return READER_LEFT
    except (KeyboardInterrupt, typer.Abort):
        return _say("interrupted", INTERRUPTED)
    except BillingError as error:
        return _say(str(error))
    except typer.TyperException as error:
        return _say(f"{error.format_message()} See 'gpu-billing --help'.")
    except OSError as error:
        return _say(str(error))
    except Exception as error:  # noqa: BLE001  # the last resort: whatever it is, a person gets one line
        return _unexpected(error)
    return status if isinstance(status, int) else 0


def _say(line: str, status: int = FAILED) -> int:
    print("gpu-billing:", " ".join(line.split()), file=sys.stderr)
    return status


def _unexpected(error: Exception) -> int:
    if os.environ.get("GPU_BILLING_DEBUG"):
        traceback.print_exception(error)
        return FAILED
    what = str(error).partition("\n")[0]
    if _is_lost_connection(error):
        return _say(f"database: {what}")
    return _say(f"internal error: {type(error).__name__}: {what} (set GPU_BILLING_DEBUG=1 for the traceback)")


def _is_lost_connection(error: Exception) -> bool:
    """Whether the server went away under a command; as psycopg says it, or wrapped by SQLAlchemy."""
    psycopg = sys.modules.get("psycopg")  # not loaded, not the cause
    return psycopg is not None and isinstance(getattr(error, "orig", error), psycopg.OperationalError)


def _abandon_output() -> None:
    """Python writes out what is left when it ends, and nobody is there to read it."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"gpu-billing {version('gpu-billing')}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def gpu_billing(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show it.")] = False,  # noqa: ARG001  # its callback answers
) -> None:
    """Usage metering and billing for a GPU cloud."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
