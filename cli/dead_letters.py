"""`gpu-billing dead-letters`: messages of the stream that could not be read."""

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from metering.dead_letters import Replayed

app = typer.Typer(help="Messages of the stream that could not be read.", no_args_is_help=True)
JSON = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


@app.command("list")
def list_letters(
    every: Annotated[bool, typer.Option("--all", help="Also those that were replayed.")] = False,
    most: Annotated[int | None, typer.Option(min=1, help="At most so many, the oldest.")] = None,
    json: JSON = False,
) -> None:
    """List those that wait, oldest first."""
    from contextlib import closing

    from cli.books import books
    from cli.show import print_json, print_table
    from core.config import load
    from core.database import connect
    from metering.dead_letters import listed

    with closing(connect(books(load()))) as db:
        letters = listed(db, replayed=every, most=most)
    if json:
        print_json({"dead_letters": [each.to_json() for each in letters]})
        return
    names = ("id", "where", "key", "account", "reason", "what", "bytes")
    told = [each.to_json() for each in letters]
    print_table(
        "Dead letters", names,
        [
            (str(t["id"]), f"{t['topic']}/{t['partition']}@{t['offset']}", t["key"] or "", ", ".join(t["accounts"]),
             t["reason"], t["detail"], str(t["bytes"]))
            for t in told
        ],
    )  # fmt: skip


@app.command()
def replay(
    ids: Annotated[list[int] | None, typer.Argument(help="Which ones; else all that wait.")] = None,
    json: JSON = False,
) -> int:
    """Read them again after a fix and record what they hold. Exits with 1 when some still cannot be read."""
    from cli.ledger import NEEDS_A_PERSON, recording
    from cli.show import print_json
    from metering.dead_letters import listed
    from metering.dead_letters import replay as read_again

    done: list[Replayed] = []
    with recording() as recorder:
        with recorder.connection.transaction():
            letters = listed(recorder.connection)
        done += [read_again(recorder, letter) for letter in letters if not ids or letter.id in ids]
    failed = [each for each in done if each.problem]
    if json:
        print_json({
            "replayed": len(done) - len(failed), "waiting": len(failed),
            "letters": [{"id": each.letter.id, "problem": each.problem, **_sums(each)} for each in done],
        })  # fmt: skip
    else:
        for each in done:
            sums = ", ".join(f"{count} {part}" for part, count in _sums(each).items())
            typer.echo(f"{each.letter.id}: {each.problem or sums}")
        typer.echo(f"{len(done) - len(failed)} replayed, {len(failed)} still wait")
    return NEEDS_A_PERSON if failed else 0


def _sums(replayed: "Replayed") -> dict[str, int]:
    outcome = replayed.outcome
    parts = ("received", "accepted", "duplicate", "rejected")
    return {} if outcome is None else {part: getattr(outcome, part) for part in parts}
