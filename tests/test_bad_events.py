"""Whatever a file of events holds: one message for what is bad, nothing good lost, in the ledger and in `rate`."""

import json
import tempfile
import tracemalloc
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.errors import InputUnusable
from metering.door import accept
from metering.events import MAX_EVENT_BYTES
from metering.ingest import Ingested, batches, ingest
from metering.lines import Line, read_lines
from metering.recorder import Recorder
from tests.conftest import _made as made
from tests.ledger_kit import Books, examples, opened

WHOLE: dict[str, Any] = {
    "specversion": "1.0", "id": "bad", "source": "/hosts/1", "type": "instance.started", "subject": "i-1",
    "time": "2026-03-01T00:00:00Z", "data": {"account": "acct-1", "sku": "gpu.a", "cards": 8},
}  # fmt: skip
TEXT = json.dumps(WHOLE).encode()
DEEP = b"[" * 200_000 + b"]" * 200_000
NINES = b"9" * 5_000
CONTROL = "control characters are refused"


def good(number: int) -> bytes:
    return json.dumps({**WHOLE, "id": f"good-{number}", "subject": f"i-good-{number}"}).encode()


def having(**changes: Any) -> bytes:
    return json.dumps({**WHOLE, **changes}).encode()


def data(**changes: Any) -> bytes:
    return having(data={**WHOLE["data"], **changes})


def without(name: str) -> bytes:
    return having(data={key: value for key, value in WHOLE["data"].items() if key != name})


def swapped(old: bytes, new: bytes) -> bytes:
    assert TEXT.count(old) == 1
    return TEXT.replace(old, new)


MALFORMED = [
    # no JSON object
    (TEXT[:60], "event: input data was truncated"),
    (b"no json", "event: JSON is malformed: invalid character (byte 4)"),
    (TEXT + TEXT, f"event: JSON is malformed: trailing characters (byte {len(TEXT) + 1})"),
    (b"42", "event: expected `object`, got `int`"),
    (b'"text"', "event: expected `object`, got `str`"),
    (b"null", "event: expected `object`, got `null`"),
    (b"[" + TEXT + b"," + TEXT + b"]", "event: an array; a file has one event, a JSON object, on each line"),
    # types and ranges
    (data(cards=8.0), "data.cards: expected `int`, got `float`"),
    (data(cards=True), "data.cards: expected `int`, got `bool`"),
    (data(cards="8"), "data.cards: expected `int`, got `str`"),
    (data(cards=[8]), "data.cards: expected `int`, got `array`"),
    (data(cards=-1), "data.cards: expected `int` >= 0"),
    (data(cards=1_000_000), "data.cards: expected `int` <= 100000"),
    (swapped(b"8}", b"8e0}"), "data.cards: expected `int`, got `float`"),
    (swapped(b"8}", NINES + b"}"), "data.cards: integer value out of range"),
    (swapped(b"8}", b"NaN}"), "event: JSON is malformed: invalid character (byte 191)"),
    (data(account=7), "data.account: expected `str`, got `int`"),
    (data(plan=None), "data.plan: expected `str`, got `null`"),
    (having(id=7), "id: expected `str`, got `int`"),
    (having(id=""), "id: expected `str` of length >= 1"),
    (having(id="x" * 257), "id: expected `str` of length <= 256"),
    (having(type=3), "type: expected `str`, got `int`"),
    (having(data=[]), "data: expected `object`, got `array`"),
    (having(specversion="0.3"), "specversion: invalid enum value '0.3'"),
    (without("account"), "data: object missing required field `account`"),
    (without("sku"), "data: object missing required field `sku`"),
    (without("cards"), "data: object missing required field `cards`"),
    (having(type="instance.resized", data={}), "data: a resize names cards, sku or plan"),
    (having(type="idle.started", data={"incident": "x", "cards": []}), "data.cards: expected `array` of length >= 1"),
    (having(type="failure.started", data={"incident": "x", "cards": [-1]}), "data.cards[0]: expected `int` >= 0"),
    (having(type="failure.started", data={"incident": "x", "fault": "me"}), "data.fault: invalid enum value 'me'"),
    (having(type="failure.started", data={}), "data: object missing required field `incident`"),
    # times
    (having(time="2026-03-01T00:00:00"), "time: '2026-03-01T00:00:00' has no offset from UTC (R1)"),
    (having(time="2026-03-01"), "time: '2026-03-01' is not an ISO 8601 instant like 2026-03-01T00:00:00Z"),
    (having(time="2026-02-30T00:00:00Z"), "time: '2026-02-30T00:00:00Z': day is out of range for month"),
    (having(time="2026-03-01T00:00:60Z"), "time: '2026-03-01T00:00:60Z': second must be in 0..59"),
    (having(time="0001-01-01T00:00:00Z"), "time: '0001-01-01T00:00:00Z' lies outside the years 2000 to 2099"),
    (having(time="0001-01-01T00:00:00+08:00"), "time: '0001-01-01T00:00:00+08:00' lies outside the years 2000 to 2099"),
    (having(time="9999-12-31T23:59:59Z"), "time: '9999-12-31T23:59:59Z' lies outside the years 2000 to 2099"),
    (having(time="9999-12-31T23:59:59-08:00"), "time: '9999-12-31T23:59:59-08:00' lies outside the years 2000 to 2099"),
    (having(time=1772323200), "time: expected `str`, got `int`"),
    # depth
    (swapped(b"8}", DEEP + b"}"), "event: nested more than 64 deep"),
    (swapped(b"8}", b'8, "x": ' + DEEP + b"}"), "event: nested more than 64 deep"),
    (swapped(b'"id"', b'"x": ' + DEEP + b', "id"'), "event: nested more than 64 deep"),
    (swapped(b"8}", b'8, "x": ' + b'{"a":' * 63 + b"1" + b"}" * 64), "event: nested more than 64 deep"),
    # text
    (having(id="a\u0000b"), f"id, source, subject or name: {CONTROL}"),
    (having(subject="a\u001b[2J"), f"id, source, subject or name: {CONTROL}"),
    (having(source="a\u009b2J"), f"id, source, subject or name: {CONTROL}"),
    (data(account="a\u0000"), f"data: {CONTROL}"),
    (data(project="a\u0007"), f"data: {CONTROL}"),
    (swapped(b"bad", b"b\x00d"), "event: JSON is malformed: invalid character (byte 31)"),
    (swapped(b"bad", b"\\ud800"),
     "event: JSON is malformed: unexpected end of escaped utf-16 surrogate pair (byte 36)"),
    (swapped(b"acct-1", b"\\udfff"), "event: JSON is malformed: invalid utf-16 surrogate pair (byte 163)"),
    (swapped(b"acct-1", b"\xff\xfe"), "event: not UTF-8 (byte 157)"),
    (swapped(b"8}", b'8, "x": "\xc3"}'), "event: not UTF-8 (byte 200)"),
]  # fmt: skip
UNKNOWN_TYPE = [
    (having(type="instance.exploded"), "type: 'instance.exploded' is not an event of this service"),
    (having(type="a\u0000" * 40), f"type: '{('a' + chr(92) + 'x00') * 28}a...' is not an event of this service"),
]
CASES = [*(("malformed", *case) for case in MALFORMED), *(("unknown_type", *case) for case in UNKNOWN_TYPE)]

FINE = [
    swapped(b"8}", b'8, "x": ' + NINES + b"}"),
    swapped(b'"id"', b'"x": ' + NINES + b', "id"'),
    swapped(b"8}", b'8, "x": 1e999999999999999999999999}'),
    swapped(b"8}", b'8, "x": ' + b'{"a":' * 62 + b"1" + b"}" * 63),
    swapped(b"8}", b'8, "x": "' + b"[{" * 5_000 + b'"}'),
    swapped(b"8}", b'8, "labels": {"' + "\u540d".encode() + b'": "\\u0000"}}'),
    swapped(b"8}", b'80, "cards": 8}'),  # of two the last one stands, as in most readers of JSON
    b"\xef\xbb\xbf" + TEXT,
    b"  " + TEXT + b" \r",
]
"""Odd, but it can be read: each is the same start of eight cards."""


@pytest.fixture(scope="module")
def books(server_url: str, template_url: str) -> Iterator[Books]:
    with made(server_url, template_url) as url, opened(url) as found:
        yield found


@pytest.fixture
def ledger(books: Books) -> Books:
    books.fresh([])
    return books


def recorder_of(ledger: Books) -> Recorder:
    assert ledger.recorder
    return ledger.recorder


def through_ledger(ledger: Books, lines: Iterable[bytes]) -> Ingested:
    """What `ingest` makes of a file of these lines."""
    with tempfile.TemporaryFile() as file:
        file.writelines(line + b"\n" for line in lines)
        file.seek(0)
        into = Ingested("e.jsonl")
        ingest(recorder_of(ledger), "file:e.jsonl", read_lines(file, "e.jsonl"), into)
    return into


def through_rate(lines: Iterable[bytes]) -> list[tuple[str, str, str]]:
    """What `rate` makes of it: the rejects; everything else must have been accepted."""
    with tempfile.TemporaryFile() as file:
        file.writelines(line + b"\n" for line in lines)
        file.seek(0)
        found = accept(read_lines(file, "e.jsonl"))
    assert found.received == len(found.facts) + found.duplicates + found.rejected
    return [(each.position, each.reason, each.detail) for each in found.rejects]


def test_each_bad_event_has_its_message_and_nothing_good_is_lost(ledger: Books) -> None:
    lines = [good(0)]
    for number, (_, bad, _) in enumerate(CASES, start=1):
        lines += [bad, good(number)]

    expected = [(f"line {2 * n}", reason, detail) for n, (reason, _, detail) in enumerate(CASES, start=1)]
    assert through_rate(lines) == expected
    done = through_ledger(ledger, lines)
    assert (done.received, done.accepted, done.duplicate, done.rejected) == (len(lines), len(CASES) + 1, 0, len(CASES))
    told = [(f"line {each.line}", each.reason, each.detail) for each in done.told]
    assert told == expected[:20]
    kept = ledger.db.execute("SELECT position, reason, detail FROM reject ORDER BY id").fetchall()
    assert kept == expected
    assert ledger.differences() == []


@pytest.mark.parametrize("fine", FINE)
def test_odd_events_are_read(ledger: Books, fine: bytes) -> None:
    other = swapped(b"8}", b"7}")  # in conflict with it, so that all of both is compared
    assert [reason for _, reason, _ in through_rate([fine, other])] == ["conflict"]
    done = through_ledger(ledger, [good(0), fine, fine, other, fine + b" ", good(1)])
    assert (done.accepted, done.duplicate, done.rejected) == (3, 2, 1)
    cards = [json.loads(bytes(raw).removeprefix(b"\xef\xbb\xbf"), parse_int=str)["data"]["cards"] for (raw,) in
             ledger.db.execute("SELECT raw FROM event ORDER BY seq")]  # fmt: skip
    assert cards == ["8", "8", "8"]
    assert ledger.bills(2_000_000_000)["rejects"][0][1] == "conflict"


def test_numbers_are_compared_to_their_last_digit(ledger: Books) -> None:
    one, other = (swapped(b"8}", b'8, "x": ' + NINES + last + b"}") for last in (b"1", b"2"))
    same = swapped(b"8}", b'8, "x": ' + NINES + b"1.0e0}")
    done = through_ledger(ledger, [one, same, other])
    assert (done.accepted, done.duplicate, done.rejected) == (1, 1, 1)


# --- files as a whole -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "the file is empty"),
        (b"\x1f\x8b\x08\x00" + b"x" * 100, "the file is compressed with gzip; unpack it first"),
        (b"BZh91AY&SY", "the file is compressed with bzip2; unpack it first"),
        (b"\xfd7zXZ\x00", "the file is compressed with xz; unpack it first"),
        (b"\x28\xb5\x2f\xfd\x04", "the file is compressed with zstd; unpack it first"),
        (b"PK\x03\x04\x14", "the file is compressed with zip; unpack it first"),
        (TEXT.decode().encode("utf-16"), "the file is UTF-16 or UTF-32; events are UTF-8"),
        (TEXT.decode().encode("utf-16-le"), "the file is UTF-16 or UTF-32; events are UTF-8"),
        (TEXT.decode().encode("utf-16-be"), "the file is UTF-16 or UTF-32; events are UTF-8"),
        (TEXT.decode().encode("utf-32"), "the file is UTF-16 or UTF-32; events are UTF-8"),
    ],
)
def test_a_file_that_is_no_file_of_events(tmp_path: Path, content: bytes, reason: str) -> None:
    file = tmp_path / "e.jsonl"
    file.write_bytes(content)
    with file.open("rb") as stream, pytest.raises(InputUnusable) as caught:
        list(read_lines(stream, "e.jsonl"))
    assert str(caught.value) == f"e.jsonl: {reason}"


def test_marks_ends_and_blank_lines_are_no_part_of_an_event(tmp_path: Path) -> None:
    file = tmp_path / "e.jsonl"
    file.write_bytes(b"\xef\xbb\xbf" + good(0) + b"\r\n\r\n  \n\xef\xbb\xbf" + good(1))
    with file.open("rb") as stream:
        assert list(read_lines(stream, "")) == [Line(1, good(0), len(good(0))), Line(4, good(1), len(good(1)))]


def test_a_line_of_100_megabytes_costs_one(ledger: Books) -> None:
    length = 100_000_000
    with tempfile.TemporaryFile() as file:
        file.write(good(0) + b"\n" + TEXT[:-2] + b', "x": "')
        for _ in range(100):
            file.write(b"y" * (length // 100))
        file.write(b'"}}\n' + good(1) + b"\n")
        length += len(TEXT[:-2]) + len(b', "x": ""}}\n')
        file.seek(0)
        into = Ingested("e.jsonl")
        tracemalloc.start()
        try:
            ingest(recorder_of(ledger), "file:e.jsonl", read_lines(file, "e.jsonl"), into)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert (into.received, into.accepted, into.rejected) == (3, 2, 1)
    detail = f"a line of {length} bytes; at most {MAX_EVENT_BYTES} are read"
    assert [(told.line, told.id, told.detail) for told in into.told] == [(2, None, detail)]
    assert peak < 10 * MAX_EVENT_BYTES


def test_a_long_line_that_begins_with_blanks_is_refused_too(tmp_path: Path) -> None:
    file = tmp_path / "e.jsonl"
    file.write_bytes(b" " * (MAX_EVENT_BYTES + 10) + good(0) + b"\n" + good(1))
    with file.open("rb") as stream:
        found = accept(read_lines(stream, ""))
    assert (found.received, found.rejected, [fact.id for fact in found.facts]) == (2, 1, ["good-1"])


def test_long_lines_make_short_batches() -> None:
    lines = [Line(number, b"x" * 1000, 1000) for number in range(1, 11)]
    assert [len(batch) for batch in batches(lines, 4)] == [4, 4, 2]
    assert [len(batch) for batch in batches(lines, 100, most_bytes=2500)] == [3, 3, 3, 1]


def test_ten_thousand_rejects_are_all_kept(ledger: Books) -> None:
    lines = [line for n in range(10_000) for line in (b"{bad %d" % n, *([good(n)] if n % 1000 == 0 else []))]
    done = through_ledger(ledger, [*lines, good(-1)])
    assert (done.received, done.accepted, done.duplicate, done.rejected) == (10_011, 11, 0, 10_000)
    assert (len(done.told), done.to_json()["more_rejects"]) == (20, 9_980)
    assert ledger.db.execute("SELECT count(*) FROM reject").fetchone() == (10_000,)
    again = through_ledger(ledger, lines)
    assert (again.duplicate, again.rejected) == (10, 10_000)
    assert ledger.db.execute("SELECT count(*) FROM reject").fetchone() == (10_000,)


# --- anything -------------------------------------------------------------------------------------------------------

HURT = [b"\x00", b'"', b"{", b"[", b"\\u0000", b"\\ud800", b"\xff", b"\xef\xbb\xbf", b"1e9", b"-", b"true", b",", b":"]


@st.composite
def mangled(draw: st.DrawFn) -> bytes:
    """An event with a stretch cut out, doubled or replaced by what hurts."""
    text = draw(st.sampled_from([TEXT, *(case[1] for case in CASES if len(case[1]) < 1000)]))
    first, last = sorted(draw(st.tuples(st.integers(0, len(text)), st.integers(0, len(text)))))
    middle = draw(st.sampled_from([b"", text[first:last] * 2, *HURT]) | st.binary(max_size=8))
    return text[:first] + middle + text[last:]


@given(st.lists(st.binary(max_size=200) | mangled(), min_size=1, max_size=8))
@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_random_bytes_hurt_nobody(books: Books, bad: list[bytes]) -> None:
    books.fresh([])
    lines = [good(0), *bad, b"", good(1)]
    done = through_ledger(books, lines)
    assert done.received == done.accepted + done.duplicate + done.rejected
    ids = {fact.id for fact in accept(Line(n, line.strip(), len(line)) for n, line in enumerate(lines) if line).facts}
    assert {"good-0", "good-1"} <= ids
    subjects = {row[0] for row in books.db.execute("SELECT subject FROM instance")}
    assert {"i-good-0", "i-good-1"} <= subjects
    books.bills(2_000_000_000)
    assert through_rate(lines) is not None
