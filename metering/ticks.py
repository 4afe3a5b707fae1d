"""The seconds at which something happens to an instance: facts, edges of proof, first descriptions."""

from collections.abc import Iterable, Iterator
from itertools import groupby

from metering.events import Fact, is_decision
from metering.proof import Proof


def ticks(facts: Iterable[Fact], proof: Proof, after: int, until: int) -> Iterator[tuple[int, list[Fact]]]:
    """Seconds in ``(after, until]`` in order, each with its facts; ``facts`` must be in order.

    A person's decision happens to nobody's time: it proves nothing of the instance (R9).
    """
    moving = (fact for fact in facts if not is_decision(fact.kind))
    grouped = ((second, list(group)) for second, group in groupby(moving, key=lambda fact: fact.second))
    if not proof.runs and not proof.births:
        yield from ((second, own) for second, own in grouped if after < second <= until)
        return
    by_second = dict(grouped)
    edges = {edge for runs in proof.runs.values() for run in runs for edge in run}
    births = {birth.second for birth in proof.births}
    for second in sorted(by_second.keys() | edges | births):
        if after < second <= until:
            yield second, by_second.get(second, [])
