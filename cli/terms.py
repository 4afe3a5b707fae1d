"""`gpu-billing terms`: put price books and contracts in force, and list them."""

from pathlib import Path
from typing import Annotated, Any

import typer

app = typer.Typer(help="Price books and contracts.")

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


@app.command()
def apply(
    files: Annotated[list[Path], typer.Argument(help="Price books and contracts (YAML), told apart by their content.")],
    as_correction: Annotated[
        bool, typer.Option("--as-correction", help="Also change months that are closed, by corrections.")
    ] = False,
    json: Json = False,
) -> None:
    """Check files as a whole, record their versions, and rate again what they touch."""
    from cli.ledger import recording
    from cli.show import print_json
    from core.errors import TermsInvalid
    from metering.terms_apply import apply_terms
    from pricing.load import read_terms

    found, problems = [], []
    for path in files:
        try:
            found += read_terms(path)
        except TermsInvalid as error:
            problems += error.problems
    if problems:
        raise TermsInvalid(problems)
    with recording() as recorder:
        applied = apply_terms(recorder, found, as_correction)
    told = [{"kind": a.kind, "name": a.name, "version": a.number, "known": a.known} for a in applied]
    if json:
        print_json({"applied": told})
        return
    for each in applied:
        what = f"{each.kind.replace('_', ' ')} {each.name}: version {each.number}"
        typer.echo(f"{what} {'known already' if each.known else 'recorded'}")


@app.command("list")
def list_terms(json: Json = False) -> None:
    """List the versions of all price books and contracts, in order of recording."""
    from cli.ledger import recording
    from cli.show import print_json, print_table
    from metering.terms_store import recorded_versions

    with recording() as recorder, recorder.connection.transaction():
        versions: list[dict[str, Any]] = [each.to_json() for each in recorded_versions(recorder.connection)]
    if json:
        print_json({"terms": versions})
        return
    rows = [
        (str(v["version"]), v["kind"].replace("_", " "), v["name"], v["from"] or "always", v["recorded_at"],
         "correction" if v["correction"] else "")
        for v in versions
    ]  # fmt: skip
    print_table("Terms", ("version", "kind", "name", "from", "recorded", ""), rows)
