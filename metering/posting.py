"""Wanted minus posted: what has to be appended so that the ledger says what the timeline says (R22).

An entry that is still wholly wanted is kept; one that is not is reversed whole, and what is then missing is appended.
Entries of equal key are compared as areas of time and cards, because arrival cuts them differently each time.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from typing import NamedTuple

from metering import cards
from metering.cards import Ranges
from metering.pieces import PACK, Piece
from metering.usage import WHOLE_KINDS, cuts_of
from pricing.terms import Terms


class Slice(NamedTuple):
    """A piece inside one billing day: what an entry says."""

    day: int
    piece: Piece


class Posted(NamedTuple):
    """An entry of the ledger that no other takes back."""

    id: int
    slice: Slice


class Difference(NamedTuple):
    """Entries to take back, and slices to append."""

    reversed: list[Posted]
    appended: list[Slice]


class Window(NamedTuple):
    """The time that a comparison speaks of: ``[start, end)`` for time; what facts at ``end`` conclude belongs to it."""

    start: int
    end: int

    def holds(self, piece: Piece) -> bool:
        """Whether a piece is this window's matter, at least in part."""
        if piece.kind == PACK:
            return self.start <= piece.start < self.end
        if piece.kind in WHOLE_KINDS:
            return self.start < piece.end <= self.end
        return piece.end > self.start and piece.start < self.end


Area = tuple[int, int, Ranges]
"""A stretch of time on some cards."""


def slices_of(pieces: Iterable[Piece], terms: Terms, since: int = -(2**62)) -> list[Slice]:
    """Pieces cut at billing days, without the time before ``since`` (it is posted)."""
    found = []
    for piece in pieces:
        calendar = terms.account(piece.series.account).calendar
        if piece.kind in WHOLE_KINDS:
            if piece.start >= since or piece.kind != PACK:
                found.append(Slice(calendar.day_of(piece.start), piece))
            continue
        if piece.end <= since:
            continue
        day, stop = calendar.day_and_end(piece.start)
        if piece.start >= since and piece.end <= stop:
            found.append(Slice(day, piece))
            continue
        rest = clipped(piece, since, piece.end)
        found += [Slice(cut.day, clipped(rest, cut.at, cut.end)) for cut in cuts_of(rest, calendar)]
    return found


def clipped(piece: Piece, start: int, end: int) -> Piece:
    """The part of a piece of time inside ``[start, end)``."""
    low, high = max(piece.start, start), min(piece.end, end)
    each = piece.quantity // (piece.end - piece.start)
    return piece._replace(start=low, end=high, quantity=each * (high - low))


def difference(wanted: Iterable[Slice], posted: Iterable[Posted], window: Window) -> Difference:
    """What turns the posted entries of a window into the wanted slices."""
    wanted_by_key: dict[Hashable, list[Slice]] = defaultdict(list)
    posted_by_key: dict[Hashable, list[Posted]] = defaultdict(list)
    for each in wanted:
        wanted_by_key[_key(each)].append(each)
    for entry in posted:
        if window.holds(entry.slice.piece):
            posted_by_key[_key(entry.slice)].append(entry)
    result = Difference([], [])
    for key in wanted_by_key.keys() | posted_by_key.keys():
        slices, entries = wanted_by_key.get(key, []), posted_by_key.get(key, [])
        sample = slices[0] if slices else entries[0].slice
        compare = _compare_whole if sample.piece.kind in WHOLE_KINDS else _compare_areas
        part = compare(slices, entries, window)
        result.reversed.extend(part.reversed)
        result.appended.extend(part.appended)
    result.reversed.sort(key=lambda entry: entry.id)
    result.appended.sort(key=lambda each: (each.piece.start, each.piece.kind, each.piece.cards, each.day))
    return result


def _key(each: Slice) -> Hashable:
    piece = each.piece
    return (piece.kind, each.day, piece.series, piece.price, piece.run, piece.pack, piece.evidence)


def _compare_whole(wanted: Sequence[Slice], posted: Sequence[Posted], _window: Window) -> Difference:
    missing = list(wanted)
    taken_back = []
    for entry in posted:
        if entry.slice in missing:
            missing.remove(entry.slice)
        else:
            taken_back.append(entry)
    return Difference(taken_back, missing)


def _compare_areas(wanted: Sequence[Slice], posted: Sequence[Posted], window: Window) -> Difference:
    sample = wanted[0] if wanted else posted[0].slice
    areas = [(each.piece.start, each.piece.end, each.piece.cards) for each in wanted]
    for entry in posted:
        areas += _outside(entry.slice.piece, window)
    taken_back = []
    for entry in sorted(posted, key=lambda each: each.id):
        piece = entry.slice.piece
        left = _without(areas, (piece.start, piece.end, piece.cards))
        if _size(areas) - _size(left) == _size([(piece.start, piece.end, piece.cards)]):
            areas = left
        else:
            taken_back.append(entry)
    return Difference(taken_back, [_slice(sample, area) for area in _joined(areas)])


def _outside(piece: Piece, window: Window) -> list[Area]:
    """The parts of an entry that reach beyond the window: whatever happens to it, they stay wanted."""
    parts = []
    if piece.start < window.start:
        parts.append((piece.start, window.start, piece.cards))
    if piece.end > window.end:
        parts.append((window.end, piece.end, piece.cards))
    return parts


def _without(areas: Iterable[Area], taken: Area) -> list[Area]:
    start, end, ranges = taken
    left: list[Area] = []
    for low, high, own in areas:
        if high <= start or end <= low:
            left.append((low, high, own))
            continue
        left += [(low, start, own)] if low < start else []
        left += [(end, high, own)] if end < high else []
        rest = cards.difference(own, ranges)
        left += [(max(low, start), min(high, end), rest)] if rest else []
    return left


def _size(areas: Iterable[Area]) -> int:
    return sum((end - start) * cards.count(ranges) for start, end, ranges in areas)


def _joined(areas: Iterable[Area]) -> list[Area]:
    """Neighbours in time on the same cards as one."""
    joined: list[Area] = []
    for start, end, ranges in sorted(areas, key=lambda area: (area[2], area[0])):
        if joined and joined[-1][2] == ranges and joined[-1][1] == start:
            joined[-1] = (joined[-1][0], end, ranges)
        else:
            joined.append((start, end, ranges))
    return joined


def _slice(sample: Slice, area: Area) -> Slice:
    start, end, ranges = area
    quantity = (end - start) * cards.count(ranges)
    return Slice(sample.day, sample.piece._replace(start=start, end=end, cards=ranges, quantity=quantity))
