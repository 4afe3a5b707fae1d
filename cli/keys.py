"""`gpu-billing keys`: make, list and revoke the keys that programs show at the HTTP door."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from core.errors import BillingError

if TYPE_CHECKING:
    from core.key_store import Db

app = typer.Typer(help="Keys that programs show at the HTTP door.")

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


class KeyNameUnusable(BillingError):
    """A name that nobody could read in a list."""

    def __init__(self) -> None:
        super().__init__("--name: 1 to 64 printable characters")


class KeyExpiresBefore(BillingError):
    """A key that would be expired from the start."""

    def __init__(self, text: str) -> None:
        super().__init__(f"--expires: {text!r} is not later than now")


@app.command()
def create(
    name: Annotated[str, typer.Option(help="Who sends with it, for people: a region, a host, a team.")],
    expires: Annotated[str | None, typer.Option(help="Instant from which on it is refused; default never.")] = None,
    json: Json = False,
) -> None:
    """Make a key that may bring events, and print it: it is shown this once and cannot be asked for again."""
    from cli.show import print_json
    from cli.times import parse_instant
    from core.calendar import instant_of
    from core.clock import now
    from core.config import load
    from core.key_store import add_key
    from core.keys import INGEST, SHAPE, key_digest, new_key
    from core.pepper import pepper

    if not (0 < len(name) <= 64 and name.isprintable()):
        raise KeyNameUnusable
    until = None if expires is None else instant_of(parse_instant(expires, "--expires"))
    if expires and until and until <= now():
        raise KeyExpiresBefore(expires)
    secret = pepper(load())
    key = new_key()
    match = SHAPE.fullmatch(key)
    assert match is not None
    with _books() as db:
        add_key(db, match.group(1), key_digest(secret, key), name, INGEST, until)
    if json:
        print_json({"id": match.group(1), "name": name, "key": key, "expires": until and until.isoformat()})
        return
    typer.echo(key)
    typer.echo(f"key {match.group(1)} for {name}; it is shown this once", err=True)


@app.command("list")
def list_keys(json: Json = False) -> None:
    """List all keys there ever were, without their secrets, in order of making."""
    from cli.show import print_json, print_table
    from core.clock import now
    from core.key_store import all_keys

    with _books() as db:
        found = all_keys(db)
    told = [
        {
            "id": key.id, "name": key.name, "scope": key.scope, "status": key.status(now()),
            "created": key.created_at.isoformat(timespec="seconds"),
            "expires": key.expires_at and key.expires_at.isoformat(timespec="seconds"),
            "revoked": key.revoked_at and key.revoked_at.isoformat(timespec="seconds"),
        }
        for key in found
    ]  # fmt: skip
    if json:
        print_json({"keys": told})
        return
    names = ("id", "name", "scope", "status", "created", "expires")
    print_table("Keys", names, [tuple(str(each[name] or "never") for name in names) for each in told])


@app.command()
def revoke(
    ids: Annotated[list[str], typer.Argument(help="The 12 characters between gbk_ and the next _.")],
) -> None:
    """Take keys out of use, for ever and from the next request on."""
    from core.key_store import revoke_key

    with _books() as db:
        for each in ids:
            typer.echo(f"{each} {'revoked' if revoke_key(db, each) else 'was revoked before'}")


@contextmanager
def _books() -> "Iterator[Db]":
    """A connection to books that are up to date, and one transaction on it."""
    from cli.books import books
    from core.config import load
    from core.database import connect

    with closing(connect(books(load()))) as db, db.transaction():
        yield db
