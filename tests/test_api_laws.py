"""However a stream is cut into requests, forms and doors, whoever sends at once: the bills are those of ``rate``."""

import gzip
import json
import random
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import httpx2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.api_kit import BATCH, JSON, LINES, SINGLE, batch_of, bearing, client_of, counts, key_of, serving
from tests.conftest import _made as made
from tests.ledger_kit import Books, Event, batches, examples, latest, lines_of, opened, pure, second, terms_of
from tests.streams import Stream, streams

AFTER_ALL = datetime(2099, 12, 31, tzinfo=UTC)
"""When everything is received: no heartbeat of a stream is from the future then."""


@pytest.fixture(scope="module")
def url(server_url: str, template_url: str) -> Iterator[str]:
    with made(server_url, template_url) as found:
        yield found


@pytest.fixture(scope="module")
def books(url: str) -> Iterator[Books]:
    with opened(url) as found:
        yield found


def body_of(events: Sequence[Event], chance: random.Random) -> tuple[bytes, dict[str, str]]:
    """Events in one of the forms that they may have; what is no JSON can only be a line."""
    raws = [line.raw for line in lines_of(events)]
    if not all(isinstance(each, dict) for each in events):
        media, body = LINES, b"\n" + b"\n".join(raws)  # a first line of UTF-16 is a body of UTF-16
    elif len(raws) == 1 and chance.random() < 0.3 and b'"/broken"' not in raws[0]:  # a reject is one by its bytes
        return _in_headers(events[0])
    else:
        media = chance.choice([BATCH, JSON, LINES] if len(raws) != 1 else [BATCH, JSON, LINES, SINGLE])
        body = {LINES: b"\n".join(raws), BATCH: batch_of(raws), SINGLE: raws[0]}.get(media, batch_of(raws))
    if chance.random() < 0.3:
        return gzip.compress(body), {"content-type": media, "content-encoding": "gzip"}
    return body, {"content-type": media}


def _in_headers(event: Any) -> tuple[bytes, dict[str, str]]:
    told = {f"ce-{name}": value for name, value in event.items() if name != "data"}
    return json.dumps(event["data"]).encode(), {"content-type": JSON, **told}


@settings(max_examples=examples(15), suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(stream=streams(), seed=st.integers(0, 2**32))
def test_any_split_over_requests_and_keys_gives_the_bills_of_rate(
    books: Books, url: str, stream: Stream, seed: int
) -> None:
    events, book, contract, told = stream
    chance, terms = random.Random(seed), terms_of(book, contract)
    books.fresh(terms)
    keys = [key_of(url), key_of(url)]

    totals = [0, 0, 0, 0]
    with client_of(url, lambda: AFTER_ALL) as client:
        for batch in batches(events, chance):
            body, headers = body_of(batch, chance)
            answer = client.post("/v1/events", content=body, headers=bearing(chance.choice(keys)) | headers)
            assert answer.status_code in (200, 207), answer.text
            assert len(answer.json()["events"]) == len(batch)
            totals = [sum(pair) for pair in zip(totals, counts(answer.json()), strict=True)]

    assert totals[0] == len(events) == sum(totals[1:])
    as_of = second(told)
    if as_of is None:
        as_of = latest(events)
    if as_of >= 0:  # there is an event that can be read, or an instant that was asked for
        assert books.bills(as_of) == pure(events, terms, as_of)
    assert books.differences() == []


# --- many at once ----------------------------------------------------------------------------------------------------


def a_stream(instances: int, hours: int) -> tuple[list[Event], dict[str, Any]]:
    """Instances that run, fail and stop, in the order of time, with an hour's beats of some; and a book for them."""
    events: list[Event] = []
    for n in range(instances):
        for hour in range(hours):
            base = {"specversion": "1.0", "source": "/many", "subject": f"i-{n}"}
            data = {"account": f"acct-{n % 3}", "sku": "gpu.x", "cards": 1 + n % 8}
            for minute, kind, extra in (
                (0, "instance.started", data),
                (10 + n % 7, "failure.started", {"incident": f"f{hour}"}),
                (20 + n % 5, "failure.ended", {"incident": f"f{hour}"}),
                (59, "instance.stopped", {}),
            ):
                time = f"2026-03-01T{hour:02d}:{minute:02d}:{n % 60:02d}Z"
                events.append({**base, "id": f"{n}-{hour}-{minute}", "type": kind, "time": time, "data": extra})
    events.sort(key=lambda event: str(event["time"]) if isinstance(event, dict) else "")
    book = {
        "currency": "CNY", "time_zone": "UTC", "skus": {"gpu.x": {"name": {"en": "X"}}},
        "plans": {"on_demand": {"unit_s": 1}},
        "prices": [{"sku": "gpu.x", "plan": "on_demand", "per_card_hour": "3.60", "from": "2020-01-01T00:00:00Z"}],
    }  # fmt: skip
    return events, book


def test_eight_senders_of_overlapping_batches(database_url: str) -> None:
    events, book = a_stream(20, 6)
    terms, chance = terms_of(book), random.Random(8)
    windows = [(n, n + 60) for n in range(0, len(events), 20)]
    sent = [(events[start:end], key) for start, end in windows for key in chance.sample(range(3), 2)]
    chance.shuffle(sent)
    with opened(database_url) as books, serving(database_url) as server:
        books.fresh(terms)
        keys = [key_of(database_url) for _ in range(3)]

        def send(each: tuple[Sequence[Event], int]) -> tuple[int, int, int, int]:
            body, told = body_of(each[0], random.Random(len(each[0])))
            headers = bearing(keys[each[1]]) | told
            answer = httpx2.post(f"{server.address}/v1/events", content=body, headers=headers, timeout=60)
            assert answer.status_code == 200, answer.text
            return counts(answer.json())

        with ThreadPoolExecutor(8) as senders:
            told = list(senders.map(send, sent))

        assert sum(each[1] for each in told) == len(events)
        assert sum(each[2] for each in told) == sum(len(batch) for batch, _ in sent) - len(events)
        as_of = latest(events)
        assert books.bills(as_of) | {"duplicates": 0} == pure(events, terms, as_of)
        assert books.differences() == []
        assert server.end(15) == 0
