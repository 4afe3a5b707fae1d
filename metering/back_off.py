"""How long to wait for a server that is away."""

from random import Random


class BackOff:
    """Waits between attempts: twice as long each time, up to a limit, and a random share of that."""

    def __init__(self, first_s: float, most_s: float, chance: Random | None = None) -> None:
        self._first_s, self._most_s = first_s, most_s
        self._chance = chance or Random()
        self._attempts = 0

    def next_s(self) -> float:
        """How long to wait now."""
        self._attempts += 1
        longest = min(self._most_s, self._first_s * 2.0 ** min(self._attempts - 1, 32))
        return longest * (0.5 + self._chance.random() / 2)

    def reset(self) -> None:
        """All is well again."""
        self._attempts = 0
