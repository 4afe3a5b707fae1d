"""Where an instance stands after its latest fact: small, packable, and equal when nothing that follows can differ.

What only a session's end decides (padding) is not part of it, so that a late fact's replay can meet a stored state
again soon (see ``metering/README.md``).
"""

import msgspec
from msgspec import Struct

from metering.cards import Ranges


class Session(Struct, array_like=True):
    """A running session with its terms of now and as they were when it opened (sku, plan, cards)."""

    name: str | None
    start: int
    account: str
    project: str
    region: str
    sku: str
    plan: str
    cards: int
    opened: tuple[str, str, int]
    watched: bool
    evidence: tuple[int, ...]

    def terms(self) -> tuple[str, str, str, str, str, int]:
        """Account, project, region, SKU, plan and cards."""
        return (self.account, self.project, self.region, self.sku, self.plan, self.cards)


class Incident(Struct, array_like=True):
    """An incident that is open: its class, its cards, and whether its time is excluded (R7)."""

    klass: int
    name: str
    cards: Ranges
    excluded: bool
    evidence: int


class HeldPack(Struct, array_like=True):
    """A pack that covers ``cards``: the ``number``-th since ``anchor``; ``price`` per card as ``n/d`` (R12)."""

    cards: Ranges
    anchor: int
    number: int
    start: int
    end: int
    price: str
    evidence: tuple[int, ...]


class State(Struct, array_like=True):
    """An instance after all that happened up to and including ``second``, its latest proof.

    Sessions stand in the order in which they opened: the first speaks for SKU, plan and cards. ``run`` is the start
    of the time that they cover together (-1: nothing runs). ``fallen`` are cards whose pack ended without renewal.
    ``ever`` is whether the instance had a session; ``account`` is whose it was last.
    """

    second: int = -1
    sessions: tuple[Session, ...] = ()
    run: int = -1
    ever: bool = False
    account: str = ""
    incidents: tuple[Incident, ...] = ()
    packs: tuple[HeldPack, ...] = ()
    fallen: Ranges = ()

    def session(self, name: str | None) -> Session | None:
        """The running session of that very name."""
        for session in self.sessions:
            if session.name == name:
                return session
        return None

    def ran_at(self, name: str | None, second: int) -> bool:
        """Whether the running session of that name ran at an earlier second already."""
        session = self.session(name)
        return session is not None and session.start <= second


_decoder = msgspec.msgpack.Decoder(State)
_encoder = msgspec.msgpack.Encoder()


def pack(state: State) -> bytes:
    """The state in bytes; equal states give equal bytes."""
    return _encoder.encode(state)


def unpack(packed: bytes) -> State:
    """The state that ``pack`` wrote."""
    return _decoder.decode(packed)
