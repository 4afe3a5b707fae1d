"""`gpu-billing serve`: the HTTP door, until somebody stops it."""

from typing import Annotated

import typer

GRACE_S = 40
"""Longer than a request may wait for its recorder."""


def serve(
    host: Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 for all.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any free one, told in the log.")] = 8080,
    workers: Annotated[int, typer.Option(min=1, max=64, help="Processes; at most one for each core.")] = 1,
) -> int:
    """Take events over HTTP; SIGTERM and SIGINT end it once the requests under way are answered."""
    import os
    import signal
    import tempfile

    from cli.ledger import FAILED, recording
    from core import logs
    from core.config import load
    from core.pepper import pepper

    logs.configure()
    pepper(load())  # what is wrong with the settings is told before a process listens
    with recording():
        pass  # books that are up to date, and nothing that a killed command left unrated
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # what uvicorn raises again when it has ended well
    with tempfile.TemporaryDirectory(prefix="gpu-billing-metrics-") as folder:
        if workers > 1:  # the processes add up their figures, which the library does through files
            os.environ["PROMETHEUS_MULTIPROC_DIR"] = folder
        try:
            _run(host, port, workers)
        except SystemExit:  # it could not listen, and has said why
            return FAILED
    return 0


def _run(host: str, port: int, workers: int) -> None:
    """Serve; uvicorn's lines go the way of ours, and the access lines are ours, without queries and headers."""
    import uvicorn

    uvicorn.run(
        "api.app:from_settings", factory=True, host=host, port=port, workers=workers, log_config=None,
        access_log=False, server_header=False, timeout_graceful_shutdown=GRACE_S, lifespan="on",
    )  # fmt: skip
