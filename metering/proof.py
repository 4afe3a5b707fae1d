"""Proof of life: runs of heartbeats no further apart than the time-out, per session name (R9).

A run is ``(first, last)``, both seconds of beats; every instant between them counts as proven.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from metering.events import Started

Run = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Birth:
    """The earliest full heartbeat of one description, which may open the session of an instance that had none."""

    second: int
    terms: Started
    evidence: int


@dataclass(frozen=True, slots=True)
class Proof:
    """The heartbeats of one instance: runs in order of time by session name, and full descriptions by time."""

    runs: Mapping[str | None, tuple[Run, ...]] = field(default_factory=dict)
    births: tuple[Birth, ...] = ()

    def covers(self, start: int, end: int) -> bool:
        """Whether one run proves every instant from ``start`` to ``end``."""
        return any(first <= start and end <= last for runs in self.runs.values() for first, last in runs)

    def beats(self, name: str | None, second: int) -> bool:
        """Whether a run of the session's name holds a second."""
        return any(first <= second <= last for first, last in self.runs.get(name, ()))

    def latest(self, second: int) -> int:
        """The latest proven second up to ``second``, or -1."""
        runs = (run for runs in self.runs.values() for run in runs)
        return max((min(last, second) for first, last in runs if first <= second), default=-1)

    def known_at(self, second: int) -> "Proof":
        """What is known of it at an instant; a later beat of a run proves the instant within."""
        runs = {name: tuple((a, min(b, second)) for a, b in runs if a <= second) for name, runs in self.runs.items()}
        births = tuple(birth for birth in self.births if birth.second <= second)
        return Proof({name: cut for name, cut in runs.items() if cut}, births)

    def joined(self, timeout: Callable[[int], int]) -> "Proof":
        """The same proof in the fewest runs that a time-out allows."""
        return Proof({name: join_runs(runs, timeout) for name, runs in self.runs.items()}, self.births)


NO_PROOF = Proof()


def join_runs(runs: Iterable[Run], timeout: Callable[[int], int]) -> tuple[Run, ...]:
    """Runs and single beats in any order as the fewest runs: gaps of at most the time-out at their start are closed."""
    joined: list[Run] = []
    for first, last in sorted(runs):
        if joined and first - joined[-1][1] <= timeout(joined[-1][1]):
            joined[-1] = (joined[-1][0], max(last, joined[-1][1]))
        else:
            joined.append((first, last))
    return tuple(joined)
