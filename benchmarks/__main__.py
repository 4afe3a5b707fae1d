"""``make bench``: everything measured on one server of its own, and the table of ``docs/performance.md`` rewritten.

``python -m benchmarks 1`` takes one round where the usual are three.
"""

import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from statistics import median

import psutil

from benchmarks.bills import bill_all, fill, rate_events
from benchmarks.late import late_event
from benchmarks.recording import copied_again, record, record_in_two
from benchmarks.server import fresh_books, server
from benchmarks.steps import timed
from benchmarks.stream import arrivals, heartbeats, lines
from metering.lines import Line

ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 3
INSTANCES, ACCOUNTS, ENTRIES = 10_000, 1000, 1_000_000
PAGE = Path(__file__).parent.parent / "docs" / "performance.md"
Books = Callable[[], str]
"""The address of fresh, empty books."""


def main() -> None:
    """Measure and write."""
    with server() as running:
        numbers = count()

        def books() -> str:
            return fresh_books(running, f"bench_{next(numbers)}")

        stream = lines(arrivals(INSTANCES, ACCOUNTS))
        rows = [*recorder_rows(books, stream), *pricing_rows(books, stream)]
        steps = timed(books(), stream)
    memory = round(psutil.virtual_memory().total / 2**30)
    table = ["| what | figure | |", "|---|---:|---|", *(f"| {' | '.join(row)} |" for row in rows)]
    table += ["", f"Medians of {ROUNDS}; {len(stream):,} events; {psutil.cpu_count()} cores, {memory} GB of memory."]
    parts = ["| step | µs an event |", "|---|---:|", *(f"| {name} | {each:.1f} |" for name, each in steps.items())]
    parts.append(f"| all | {sum(steps.values()):.1f} |")
    page = PAGE.read_text()
    for name, written in (("table", table), ("steps", parts)):
        text = "\n".join(written)
        before, _, rest = page.partition(f"<!-- {name} -->\n")
        page = f"{before}<!-- {name} -->\n{text}\n<!-- end -->{rest.partition('<!-- end -->')[2]}"
        print(text)
    PAGE.write_text(page)


def recorder_rows(books: Books, stream: list[Line]) -> list[tuple[str, str, str]]:
    """The recorder in one process and in two, beside the ceiling of the same round; then late events and heartbeats."""
    found = []
    for _ in range(ROUNDS):
        url = books()
        one = len(stream) / record(url, "file:bench", stream)
        copied, seconds = copied_again(url)
        ceiling = copied / seconds
        two = len(stream) / record_in_two(books(), stream)
        found.append((one, two, ceiling, one / ceiling, two / ceiling))
        print("recorder", [round(each, 3) for each in found[-1]], flush=True)
    one, two, ceiling, share, share_of_two = (median(column) for column in zip(*found, strict=True))
    short, long = (_medians([late_event(books(), events) for _ in range(ROUNDS)]) for events in (1000, 100_000))
    beats = lines(heartbeats(INSTANCES, 20))
    heard = median(len(beats) / record(books(), "file:beats", beats) for _ in range(ROUNDS))
    return [
        ("ceiling: binary COPY of the same event rows, same indexes", f"{ceiling:,.0f}/s", "1"),
        ("recorder, one process", f"{one:,.0f} events/s", f"{share:.3f} of the ceiling"),
        ("recorder, two processes", f"{two:,.0f} events/s", f"{share_of_two:.3f} of the ceiling"),
        ("heartbeats, one process", f"{heard:,.0f}/s", "10,000 instances, one a second each, single events"),
        ("one late event, 1,000 events of history", f"{short[0]:.1f} ms", f"p99 {short[1]:.1f} ms"),
        ("one late event, 100,000 events of history", f"{long[0]:.1f} ms", f"p99 {long[1]:.1f} ms"),
    ]


def pricing_rows(books: Books, stream: list[Line]) -> list[tuple[str, str, str]]:
    """The dry run alone, and a ledger of a million entries into bills."""
    rated = median(len(stream) / rate_events(stream) for _ in range(ROUNDS))
    url = books()
    fill(url, ENTRIES)
    found = [bill_all(url) for _ in range(ROUNDS)]
    made = found[0].lines
    usage, bills, bare = (median(column) for column in zip(*(each[1:] for each in found), strict=True))
    whole = usage + bills
    return [
        ("`rate`, in one process", f"{rated:,.0f} events/s", "from bytes to bills"),
        ("bare SQL sum of 1,000,000 entries", f"{bare:.2f} s", "1"),
        ("the same summed into usage by account", f"{usage:.2f} s", f"{usage / bare:.1f} times"),
        (f"then priced: {made:,} lines of {ACCOUNTS:,} bills", f"{bills:.2f} s", f"{whole / bare:.1f} times in all"),
    ]  # fmt: skip


def _medians(found: list[tuple[float, float]]) -> tuple[float, float]:
    return median(each[0] for each in found), median(each[1] for each in found)


if __name__ == "__main__":
    main()
