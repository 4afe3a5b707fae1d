"""`gpu-billing serve`: the HTTP door, until somebody stops it."""

from typing import Annotated

import typer

GRACE_S = 40
"""Longer than a request may wait for its recorder."""


def serve(
    host: Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 for all.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any free one, told in the log.")] = 8080,
    workers: Annotated[int, typer.Option(min=1, max=64, help="Processes; one for each core at most.")] = 1,
) -> int:
    """Take events over HTTP; SIGTERM and SIGINT end it once the requests under way are answered."""
    import tempfile

    import uvicorn

    from cli.ledger import FAILED, recording
    from core import logs
    from core.config import load
    from core.pepper import pepper

    logs.configure()
    pepper(load())  # what is wrong with the settings is told before a process listens
    with recording():
        pass  # books that are up to date, and nothing that a killed command left unrated
    with tempfile.TemporaryDirectory(prefix="gpu-billing-metrics-") as folder:
        if workers > 1:
            _share_metrics(folder)
        # log_config=None: their lines go the way of ours; access lines are ours, without queries and headers
        config = uvicorn.Config(
            "api.app:from_settings", factory=True, host=host, port=port, workers=workers, log_config=None,
            access_log=False, server_header=False, timeout_graceful_shutdown=GRACE_S, lifespan="on",
        )  # fmt: skip
        server = uvicorn.Server(config)
        if workers == 1:
            server.run()
            return 0 if server.started else FAILED
        return _supervise(config, server)


def _supervise(config: "object", server: "object") -> int:
    raise NotImplementedError


def _share_metrics(folder: str) -> None:
    """Let the processes add up their figures, which the library does through files in a folder."""
    import os

    os.environ["PROMETHEUS_MULTIPROC_DIR"] = folder
