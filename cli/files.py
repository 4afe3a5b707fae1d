"""Files that a person names: opened with one line about what is wrong with them, and shown in a bar while read."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from core.errors import InputUnusable

STANDARD_INPUT = "-"


def shown_name(path: Path) -> str:
    """A path as it can be printed and stored, whatever bytes it is made of."""
    return os.fsencode(path).decode("utf-8", "replace")


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """A file for reading, ``-`` for standard input; whatever the system says of it is ``InputUnusable``."""
    if str(path) == STANDARD_INPUT:
        yield sys.stdin.buffer
        return
    try:
        stream = path.open("rb")
    except OSError as error:
        raise InputUnusable(shown_name(path), error.strerror or str(error)) from error
    with stream:
        yield stream


@contextmanager
def progress(stream: BinaryIO, name: str) -> Iterator[Callable[[], None]]:
    """A bar by bytes on a terminal, to be moved after each batch; nothing where standard error is no terminal."""
    if not sys.stderr.isatty():
        yield lambda: None
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    columns = (
        TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn()
    )  # fmt: skip
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        seekable = stream.seekable()
        task = bar.add_task(escape(name), total=os.fstat(stream.fileno()).st_size if seekable else None)
        yield lambda: bar.update(task, completed=stream.tell()) if seekable else bar.advance(task, 0)
