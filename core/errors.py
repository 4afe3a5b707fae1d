"""What can go wrong on purpose: one class per fact, the message built in its constructor."""


class BillingError(Exception):
    """A request that cannot be carried out; its text is one line a person can act on."""


class TermsInvalid(BillingError):
    """A price book or contract was refused.

    ``problems`` are lines such as ``book.yaml:12: prices[3].per_card_hour: not a float (R11)``.
    """

    def __init__(self, problems: list[str]) -> None:
        self.problems = problems
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        super().__init__(f"{problems[0]}{more}")


class InputUnusable(BillingError):
    """A file as a whole cannot be read: missing, compressed, not text, empty where it must not be."""

    def __init__(self, name: str, reason: str) -> None:
        self.name, self.reason = name, reason
        super().__init__(f"{name}: {reason}")
