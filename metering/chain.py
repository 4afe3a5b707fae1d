"""The hash chain of a door: each batch's digest covers the one before and all that the batch added.

Canonical form, version 1: SHA-256 over the previous digest (32 zero bytes at first) and these lines, each ended by a
line feed: ``1|door|number|received|accepted|duplicate|rejected|heartbeats``; for each event by number
``event|number|identity in hex|length of its bytes|bytes``; for each entry by number what ``entry_line`` writes;
``refused|SHA-256 in hex`` over what was refused (``refusals_digest``); ``beats|SHA-256 in hex`` over the heartbeats.
"""

from collections.abc import Iterable
from hashlib import sha256

from metering.cards import text
from metering.pieces import Piece

START = bytes(32)


class BatchDigest:
    """The digest of one batch as it grows."""

    def __init__(self, previous: bytes) -> None:
        self._hash = sha256(previous)

    def head(self, door: str, number: int, counts: Iterable[int]) -> None:
        """The batch itself: received, accepted, duplicate, rejected, heartbeats."""
        self._hash.update(f"1|{door}|{number}|{'|'.join(map(str, counts))}\n".encode())

    def event(self, seq: int, identity: bytes, raw: bytes) -> None:
        """An accepted event."""
        self._hash.update(b"event|%d|%b|%d|%b\n" % (seq, identity.hex().encode(), len(raw), raw))

    def entry(self, line: str) -> None:
        """An entry, as ``entry_line`` writes it."""
        self._hash.update(line.encode())

    def refused(self, digest: bytes) -> None:
        """All rejects and conflicts of the batch."""
        self._hash.update(f"refused|{digest.hex()}\n".encode())

    def beats(self, digest: bytes) -> None:
        """The heartbeats of the batch."""
        self._hash.update(f"beats|{digest.hex()}\n".encode())

    def digest(self) -> bytes:
        """The chain's new head."""
        return self._hash.digest()


def refusals_digest(refusals: Iterable[tuple[str, bytes]]) -> bytes:
    """SHA-256 over ``reason|SHA-256 of the bytes in hex``, a line each, conflicts first, else in order of arrival."""
    return sha256("".join(f"{reason}|{digest.hex()}\n" for reason, digest in refusals).encode()).digest()


def entry_line(id: int, subject: str, day: int, piece: Piece, reverses: int | None) -> str:
    """One entry in canonical form."""
    pack = piece.pack
    packed = f"{pack.start}+{pack.seconds}" if pack else ""
    return (
        f"entry|{id}|{subject}|{'|'.join(piece.series)}|"
        f"{piece.kind}|{day}|{piece.start}|{piece.end}|{text(piece.cards)}|{piece.quantity}|{piece.price}|{piece.run}|"
        f"{packed}|{'' if reverses is None else reverses}|{','.join(map(str, piece.evidence))}\n"
    )
