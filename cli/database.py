"""`gpu-billing database`: bring the books up to date, see where they are, stop the embedded server."""

import typer

app = typer.Typer(help="The database behind the books.")


@app.command()
def migrate() -> None:
    """Bring the database to the shape that this program needs."""
    from cli.books import migrate as bring_up_to_date
    from core.config import load
    from core.database import database
    from migrations import head

    bring_up_to_date(database(load()))
    typer.echo(f"at {head() or 'the beginning'}")


@app.command()
def status() -> None:
    """Say where the database is and how far it has been migrated."""
    from cli.books import step
    from core import embedded
    from core.config import load
    from migrations import head

    settings = load()
    url = settings.database_url
    if url is None:
        server = embedded.status(settings.data)
        typer.echo(f"embedded in {settings.data}: {'running' if server else 'stopped'}")
        if server is None:
            return
        url = server.url()
    else:
        typer.echo("a server given by its address")
    typer.echo(f"at {step(url) or 'the beginning'}, this program needs {head() or 'nothing'}")


@app.command()
def stop() -> None:
    """Stop the embedded server; the next command starts it again."""
    from core import embedded
    from core.config import load

    typer.echo("stopped" if embedded.stop(load().data) else "no embedded server was running")
