"""What became of a batch, and of each event in it."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Refusal:
    """An event of a batch that was not accepted: which one by its place in the batch, and why."""

    index: int
    verdict: str
    reason: str
    detail: str
    id: str | None


@dataclass(slots=True)
class Outcome:
    """What became of a batch: received = accepted + duplicate + rejected."""

    received: int = 0
    accepted: int = 0
    duplicate: int = 0
    rejected: int = 0
    refusals: list[Refusal] = field(default_factory=list)

    def add(self, other: "Outcome") -> None:
        """Count another batch in."""
        self.received += other.received
        self.accepted += other.accepted
        self.duplicate += other.duplicate
        self.rejected += other.rejected


@dataclass(frozen=True, slots=True)
class Unproven:
    """An instance that runs, but is proven only up to an instant (R9)."""

    instance: str
    until: int
