"""Arrays of heartbeats, a thousand messages a second of them, decoded by one call each.

The quick way takes only what is plain beyond doubt: ASCII, no escapes, nothing but heartbeats with ``data``, nothing
nested. Whatever is odd goes the careful way, event by event, so that both ways accept, refuse and keep the same.
"""

from typing import Final, Literal

import msgspec
from msgspec import UNSET, MsgspecError, Struct, UnsetType

from metering.events import MAX_EVENT_BYTES, MAX_NESTING, Heartbeat, Name, read_second
from metering.reading import Read


class _Beat(Struct, gc=False):
    specversion: Literal["1.0"]
    id: Name
    source: Name
    type: Literal["instance.heartbeat"]
    subject: Name
    time: str
    data: Heartbeat | UnsetType = UNSET


_beats = msgspec.json.Decoder(list[_Beat])
_MOST_TIMES: Final = 100_000
_times: dict[str, int] = {}
"""Seconds by the first 19 letters of their instants in UTC; instances beat together, so few are new."""


def hear_all(read: Read, raw: bytes, latest: int) -> bool:
    """Take a JSON array of heartbeats in, all of it or, where anything is odd, nothing: then the answer is False."""
    if len(raw) > MAX_EVENT_BYTES or not raw.isascii() or b"\\" in raw or b"\x7f" in raw:
        return False
    try:
        beats = _beats.decode(raw)
        seconds = [_second(beat.time) for beat in beats]
    except (MsgspecError, ValueError, RecursionError):
        return False
    if not beats or any(beat.data is UNSET for beat in beats):
        return False
    # Two brackets a beat and one around them: what is left over bounds how deep any of them can be.
    if raw.count(b"{") + raw.count(b"[") - 1 - 2 * (len(beats) - 1) > MAX_NESTING:
        return False
    _hear(read, beats, seconds, latest)
    return True


def _hear(read: Read, beats: list[_Beat], seconds: list[int], latest: int) -> None:
    read.received += len(beats)
    known = read.seconds
    plain = 0
    for beat, second in zip(beats, seconds, strict=True):
        data: Heartbeat = beat.data  # type: ignore[assignment]  # none is unset
        if second > latest or data.account is not None:
            read.hear(beat.subject, data.session or "", second, data.describes(), latest)
            continue
        plain += 1
        key = (beat.subject, data.session or "")
        heard = known.get(key)
        if heard is None:
            known[key] = {second}
        else:
            heard.add(second)
    read.heard += plain


def _second(text: str) -> int:
    """Like ``read_second``, for what is written ``2026-03-01T00:00:00Z``, with or without a fraction."""
    tail = text[19:]
    if tail != "Z" and not (tail[:1] == "." and tail[-1:] == "Z" and tail[1:-1].isdecimal() and len(tail) <= 32):
        return read_second(text)
    second = _times.get(text[:19])
    if second is None:
        if len(_times) >= _MOST_TIMES:
            _times.clear()
        second = _times[text[:19]] = read_second(text[:19] + "Z")
    return second
