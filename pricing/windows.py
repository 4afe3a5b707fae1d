"""The windows of a month between the instants at which a credit of the account begins or ends (R19)."""

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass

from pricing.contract import Credit


@dataclass(frozen=True, slots=True)
class Windows:
    """Consecutive half-open windows: each begins at its start and ends where the next begins, the last at ``end``."""

    starts: tuple[int, ...]
    end: int

    def index(self, second: int) -> int:
        """The number of the window that a second of the month lies in."""
        return bisect_right(self.starts, second) - 1 if len(self.starts) > 1 else 0

    def within(self, window: int, credit: Credit) -> bool:
        """Whether a credit is valid in a window: all of it or none, by construction."""
        return credit.since <= self.starts[window] < credit.expires


def credit_windows(credits: Iterable[Credit], start: int, end: int) -> Windows:
    """The windows of the month ``[start, end)``."""
    instants = {instant for credit in credits for instant in (credit.since, credit.expires)}
    return Windows((start, *sorted(instant for instant in instants if start < instant < end)), end)
