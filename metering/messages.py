"""Messages of the log become events: one, or a JSON array of them; one without any readable event is a dead letter."""

from dataclasses import dataclass
from typing import Final

import msgspec

from metering.events import Unreadable
from metering.lines import BOM, Line
from metering.log import Message, Partition
from metering.quick_beats import hear_all
from metering.reading import Read

MAX_MESSAGE_BYTES: Final = 16 << 20
"""A longer message is refused unread."""

_array = msgspec.json.Decoder(list[msgspec.Raw])


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A message of which nothing could be read, and why."""

    offset: int
    key: bytes | None
    value: bytes
    received_at: int
    reason: str
    detail: str


def read_message(
    read: Read, partition: Partition, message: Message, received_at: int, latest: int
) -> DeadLetter | None:  # fmt: skip
    """Read one message into a batch; ``latest`` is the latest second that a heartbeat may name.

    What cannot be read is in the batch too, counted and refused; the answer is the message where that is all of it.
    """
    value = message.value or b""
    place = f"{partition}@{message.offset}"
    before, count = len(read.unreadable), read.received
    if not value or len(value) > MAX_MESSAGE_BYTES:
        told = f"a message of {len(value)} bytes; at most {MAX_MESSAGE_BYTES} are read" if value else "an empty message"
        read.refuse(Line(1, value[:MAX_MESSAGE_BYTES], len(value), place), Unreadable("malformed", told))
    else:
        _read_value(read, value.removeprefix(BOM).strip(), place, latest)
    refused = len(read.unreadable) - before
    if not refused or refused < read.received - count:
        return None
    fault = read.unreadable[before][2]
    more = f" (and {refused - 1} more)" if refused > 1 else ""
    return DeadLetter(message.offset, message.key, value, received_at, fault.reason, fault.detail + more)


def _read_value(read: Read, raw: bytes, place: str, latest: int) -> None:
    if not raw.startswith(b"["):
        read.add(Line(1, raw, len(raw), place), latest)
        return
    if hear_all(read, raw, latest):
        return
    try:
        parts = _array.decode(raw)
    except (msgspec.MsgspecError, UnicodeError) as error:
        fault = Unreadable("malformed", f"message: {error}")
    except RecursionError:
        fault = Unreadable("malformed", "message: nested too deep")
    else:
        for index, part in enumerate(parts):
            event = bytes(part)
            read.add(Line(index + 1, event, len(event), f"{place}#{index}"), latest)
        return
    read.refuse(Line(1, raw, len(raw), place), fault)
