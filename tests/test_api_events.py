"""Events over HTTP: what is taken, what is answered for each, and what is refused whole, with its message."""

import asyncio
import gzip
import json
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from time import sleep
from typing import Any

import pytest
from fastapi import Request
from fastapi.testclient import TestClient
from starlette.types import Message

import api.service
from api import bodies
from api.errors import BodyTooSlow, kind_of
from api.recording import NotRecordedInTime, Recorders
from api.routers import events as route
from core.database import connect
from metering.reading import Read
from metering.recorder import Outcome, Recorder
from tests.api_kit import BATCH, JSON, LINES, SINGLE, batch_of, bearing, client_of, counts, key_of
from tests.books_kit import event
from tests.conftest import _made as made
from tests.ledger_kit import lines_of

START = event("2026-03-01 10:00", "instance.started", id="s")
STOP = event("2026-03-01 11:00", "instance.stopped", id="t")


@pytest.fixture
def client(database_url: str) -> Iterator[TestClient]:
    with client_of(database_url) as made:
        yield made


@pytest.fixture
def key(database_url: str) -> str:
    return key_of(database_url)


@pytest.fixture(scope="module")
def refusing(server_url: str, template_url: str) -> Iterator[tuple[TestClient, str, str]]:
    """A client, a key and the books' address, for requests that leave nothing in the books."""
    with made(server_url, template_url) as url, client_of(url) as client:
        yield client, key_of(url), url


def post(client: TestClient, key: str, body: bytes, media: str = JSON, **headers: str) -> Any:
    return client.post("/v1/events", content=body, headers=bearing(key, media, **headers))


# --- what is taken ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("media", "body"),
    [
        (SINGLE, START),
        (JSON, START),
        ("Application/JSON; charset=UTF-8", b"\xef\xbb\xbf \n" + START + b"\r\n"),
        (BATCH, batch_of([START])),
        (JSON, batch_of([START])),
        (LINES, START + b"\n"),
        ("application/ndjson", b"\n\n" + START),
    ],
)
def test_one_event_in_every_form(client: TestClient, key: str, media: str, body: bytes) -> None:
    answer = post(client, key, body, media)

    assert answer.status_code == 200
    assert answer.json() == {
        "received": 1, "accepted": 1, "duplicate": 0, "rejected": 0, "events": [{"id": "s", "verdict": "accepted"}]
    }  # fmt: skip


def test_an_event_in_headers_is_the_one_in_a_body(client: TestClient, key: str) -> None:
    named = event("2026-03-01 10:00", "instance.started", id="ä/%1")
    told = json.loads(named)
    attributes = {f"ce-{name}": told[name] for name in ("specversion", "source", "type", "subject", "time")}
    attributes["ce-id"] = "%C3%A4%2F%251"

    binary = client.post("/v1/events", json=told["data"], headers=bearing(key) | attributes)

    assert binary.json()["events"] == [{"id": "ä/%1", "verdict": "accepted"}]
    assert post(client, key, named).json()["events"][0]["verdict"] == "duplicate"


def test_an_event_in_headers_may_have_no_body(client: TestClient, key: str) -> None:
    told = {"specversion": "1.0", "id": "1", "source": "/h", "type": "instance.stopped", "subject": "i"}
    headers = {f"ce-{name}": value for name, value in told.items()} | {"ce-time": "2026-03-01T00:00:00Z"}

    answer = client.post("/v1/events", content=b"", headers=bearing(key) | headers)

    assert counts(answer.json()) == (1, 1, 0, 0)


def test_each_event_has_its_verdict_in_order(client: TestClient, key: str) -> None:
    other = event("2026-03-01 10:00", "instance.started", id="s", data={"cards": 2})
    odd = event("2026-03-01 12:00", "instance.exploded", id="x")

    answer = post(client, key, batch_of([START, b'{"id":"n"}', STOP, START, b"[1]", other, odd]))

    assert answer.status_code == 207
    assert counts(answer.json()) == (7, 2, 1, 4)
    assert [(each["id"], each["verdict"], each.get("reason")) for each in answer.json()["events"]] == [
        ("s", "accepted", None),
        ("n", "rejected", "malformed"),
        ("t", "accepted", None),
        ("s", "duplicate", "duplicate"),
        (None, "rejected", "malformed"),
        ("s", "rejected", "conflict"),
        ("x", "rejected", "unknown_type"),
    ]
    details = [each.get("detail") for each in answer.json()["events"]]
    assert details[1] == "event: object missing required field `specversion`"
    assert details[3] == "known already"
    assert details[5].startswith("/test#s came with another body before; this one has digest ")
    assert details[6] == "type: 'instance.exploded' is not an event of this service"


def test_a_line_that_cannot_be_read_is_that_lines_verdict(client: TestClient, key: str) -> None:
    long = b'{"id": "' + b"x" * (1 << 20) + b'"}'

    answer = post(client, key, b"\n".join([START, b"", b'{"id": "cut', b"\xff", long, STOP]), LINES)

    assert [each["verdict"] for each in answer.json()["events"]] == [
        "accepted", "rejected", "rejected", "rejected", "accepted"
    ]  # fmt: skip
    assert answer.json()["events"][3]["detail"] == f"a line of {len(long) + 1} bytes; at most 1048576 are read"


def test_an_empty_batch_is_answered_and_leaves_no_trace(client: TestClient, key: str, database_url: str) -> None:
    answer = post(client, key, b" [] ", BATCH)

    assert (answer.status_code, counts(answer.json())) == (200, (0, 0, 0, 0))
    with connect(database_url) as db:
        assert db.execute("SELECT count(*) FROM batch").fetchone() == (0,)


def test_bytes_are_kept_as_they_came_under_the_keys_own_door(client: TestClient, key: str, database_url: str) -> None:
    spaced = START.replace(b'"id":', b'"id" :  ')

    post(client, key, b"[ " + spaced + b" ,\n" + STOP + b"]")

    with connect(database_url) as db:
        assert [bytes(row[0]) for row in db.execute("SELECT raw FROM event ORDER BY seq")] == [spaced, STOP]
        assert db.execute("SELECT name FROM door").fetchall() == [(f"http:{key[4:16]}",)]


def test_gzip_is_unpacked_member_by_member(client: TestClient, key: str) -> None:
    body = gzip.compress(START + b"\n") + gzip.compress(STOP)

    assert counts(post(client, key, body, LINES, content_encoding="gzip").json()) == (2, 2, 0, 0)


# --- what is refused whole -------------------------------------------------------------------------------------------


def test_a_problem_is_told_as_one(refusing: tuple[TestClient, str, str]) -> None:
    client, key, _ = refusing

    answer = post(client, key, b"", x_request_id="mine-1")

    assert answer.status_code == 400
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["x-request-id"] == "mine-1"
    assert answer.json() == {
        "type": "urn:gpu-billing:problem:body-unreadable", "title": "The body cannot be read", "status": 400,
        "detail": "body: it is empty", "request_id": "mine-1",
    }  # fmt: skip


KNOWN = (
    "application/cloudevents+json, application/cloudevents-batch+json, application/json, application/x-ndjson,"
    " application/ndjson"
)


@pytest.mark.parametrize(
    ("status", "body", "media", "detail"),
    [
        (400, b" \n", LINES, "body: it is empty"),
        (400, START, BATCH, "body: application/cloudevents-batch+json is a JSON array of events"),
        (
            400, batch_of([START]), SINGLE,
            "body: an array of events comes as application/cloudevents-batch+json",
        ),
        (400, START[:-1], JSON, "body: Input data was truncated"),
        (400, b"[" + START + b",]", JSON, f"body: JSON is malformed: trailing comma in array (byte {len(START) + 2})"),
        (400, START + b"x", JSON, f"body: JSON is malformed: trailing characters (byte {len(START) + 1})"),
        (400, b"[" * 200_000, JSON, "body: nested too deep"),
        (400, b'{"a":' * 200_000, JSON, "body: nested too deep"),
        (400, gzip.compress(START), LINES, "body: the file is compressed with gzip; unpack it first"),
        (400, START.decode().encode("utf-16"), LINES, "body: the file is UTF-16 or UTF-32; events are UTF-8"),
        (413, b"[" + b"1," * 10_000 + b"1]", JSON, "more than 10000 events: send them in parts"),
        (413, b"[" + b"1," * 1_000_000 + b"1]", JSON, "more than 10000 events: send them in parts"),
        (413, b"1\n" * 10_001, LINES, "more than 10000 events: send them in parts"),
        (413, b" " * (10 << 20) + b"1", JSON, "a body of more than 10485760 bytes: send it in parts"),
        (415, START, "text/plain", f"content type 'text/plain'; events come as {KNOWN}"),
        (415, START, "", f"content type ''; events come as {KNOWN}"),
        (
            415, START, "application/json; charset=latin-1",
            f"content type 'application/json; charset=latin-1'; events come as {KNOWN}",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_taken_apart_is_refused(
    refusing: tuple[TestClient, str, str], status: int, body: bytes, media: str, detail: str
) -> None:
    client, key, url = refusing

    answer = post(client, key, body, media)

    assert (answer.status_code, answer.json()["detail"]) == (status, detail)
    with connect(url) as db:
        assert db.execute("SELECT count(*) FROM batch").fetchone() == (0,)


NOT_GZIP = "body: not gzip, as its content encoding says: Error -3 while decompressing data: incorrect header check"
UNPACKS = "a body that unpacks to one of more than 10485760 bytes: send it in parts"


@pytest.mark.parametrize(
    ("status", "body", "encoding", "detail"),
    [
        (400, START, "gzip", NOT_GZIP),
        (400, gzip.compress(START)[:-9], "gzip", "body: the gzip data end too early"),
        (413, gzip.compress(b" " * (10 << 20) + b"1"), "GZIP", UNPACKS),
        (413, gzip.compress(b" " * (6 << 20)) * 2, "gzip", UNPACKS),
        (415, START, "br", "content encoding 'br'; bodies come as they are or with gzip"),
    ],
)  # fmt: skip
def test_an_encoding_that_does_not_fit(
    refusing: tuple[TestClient, str, str], status: int, body: bytes, encoding: str, detail: str
) -> None:
    client, key, _ = refusing

    answer = post(client, key, body, content_encoding=encoding)

    assert (answer.status_code, answer.json()["detail"]) == (status, detail)


def test_many_commas_inside_of_few_events_are_no_reason(client: TestClient, key: str) -> None:
    started = [
        event("2026-03-01 10:00", "instance.started", str(n), {"labels": [0] * 200_000, "s": '[{,\\"' * 9})
        for n in range(3)
    ]

    assert post(client, key, batch_of(started)).status_code == 200


def test_a_body_in_chunks_is_cut_off_at_the_limit(refusing: tuple[TestClient, str, str]) -> None:
    client, key, _ = refusing

    answer = client.post("/v1/events", content=(b" " * (1 << 20) for _ in range(12)), headers=bearing(key))

    assert (answer.status_code, answer.json()["detail"]) == (413, str(bodies.BodyTooLarge()))


@pytest.mark.parametrize(("method", "path", "status"), [("GET", "/v1/events", 405), ("POST", "/v1/nothing", 404)])
def test_what_the_framework_refuses_is_a_problem_too(
    refusing: tuple[TestClient, str, str], method: str, path: str, status: int
) -> None:
    answer = refusing[0].request(method, path)

    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["type"] == "about:blank"


# --- too much, too slow, gone ----------------------------------------------------------------------------------------


def test_no_more_requests_than_there_is_room_for(client: TestClient, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api.service, "MOST_REQUESTS", 0)
    answer = post(client, key, START)
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "2")
    assert answer.json()["detail"] == "0 requests are being worked on; send it again"

    monkeypatch.setattr(api.service, "MOST_REQUESTS", 9)
    monkeypatch.setattr(api.service, "MOST_OF_A_KEY", 0)
    answer = post(client, key, START)
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "2")
    assert answer.json()["detail"] == "0 requests of this key are being worked on; send fewer at once"

    monkeypatch.undo()
    assert post(client, key, START).status_code == 200


def test_a_body_that_does_not_arrive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(route, "BODY_S", 0.05)

    async def silence() -> Message:
        await asyncio.sleep(60)
        raise AssertionError("unreachable")

    with pytest.raises(BodyTooSlow, match=r"^the body did not arrive within 0.05 s$") as caught:
        asyncio.run(route._body_of(Request({"type": "http", "headers": []}, silence)))

    assert kind_of(caught.value).status == 408


def test_a_recorder_that_takes_too_long(database_url: str) -> None:
    blocked: Future[Recorder] = Future()
    recorders = Recorders(blocked.result, 1, patience_s=0.05)

    with pytest.raises(NotRecordedInTime, match=r"^not recorded within 0.05 s, and it may still be: send it again"):
        recorders.record("http:test", [], 0)

    blocked.set_result(Recorder(database_url))
    recorders._patience_s = 10
    recorders.close()


def test_an_error_of_ours_has_no_traceback(client: TestClient, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("a secret inside")

    monkeypatch.setattr(Recorder, "record_read", broken)

    answer = post(client, key, START)

    assert answer.status_code == 500
    assert answer.json()["detail"] == "an error of this service; its operator finds it by the request id"
    assert "secret" not in answer.text


def test_one_request_that_breaks_takes_no_other_with_it(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two requests wait together; the batch of both fails, and then only the bad one does."""
    real = Recorder.record_read

    def breaking(recorder: Recorder, door: str, read: Read) -> Outcome:
        if any(fact.id == "poison" for _, fact in read.facts):
            raise ZeroDivisionError
        return real(recorder, door, read)

    monkeypatch.setattr(Recorder, "record_read", breaking)
    ready: Future[Recorder] = Future()
    recorders = Recorders(ready.result, 1)
    first = _later(recorders, lines_of([]))  # holds the thread while the others pile up
    others = [_later(recorders, lines_of([each])) for each in (START, STOP.replace(b'"t"', b'"poison"'), b"{", STOP)]
    ready.set_result(Recorder(database_url))

    assert first.result(10) == []
    assert others[0].result(10) == []
    assert isinstance(others[1].exception(10), ZeroDivisionError)
    assert [(each.index, each.reason) for each in others[2].result(10)] == [(0, "malformed")]
    assert others[3].result(10) == []
    recorders.close()


def _later(recorders: Recorders, lines: Any) -> "Future[Any]":
    pool = ThreadPoolExecutor(1)
    found = pool.submit(recorders.record, "http:test", lines, 2**31)
    pool.shutdown(wait=False)
    sleep(0.05)  # so that they wait in the order in which they were sent
    return found
