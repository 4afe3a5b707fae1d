"""Python's collector of reference cycles, kept out of the way of work that makes no cycles."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def paused() -> Iterator[None]:
    """No collection while the block runs: one that makes many objects and few cycles is searched through in vain.

    In threads whoever paused first resumes, which costs the others time and nothing else.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
