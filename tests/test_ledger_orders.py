"""Orders of arrival that are easy to get wrong: after every single event the ledger says what the dry run says."""

from collections.abc import Iterator

import pytest

from tests.conftest import _made as made
from tests.ledger_kit import Books, Event, Json, checkpoints_every, latest, opened, pure, terms_of
from tests.test_golden import book_of, contract_of, events_of

RESOLVE = 'resolve vm {source: /host, id: e, body: {type: instance.stopped, subject: %s, time: "%s", data: {}}}'
ORDERS = {
    "a withdrawal comes before the event that it means, the instance's first": """
        1h      retract vm {source: /host, id: e}
        0       start vm {} id=e
        30m     start vm
    """,
    "a withdrawal takes the fault that ended an incident": """
        0       start vm
        10m     fail  vm {incident: f}
        20m     mend  vm {incident: f, fault: user} id=e
        1h      stop  vm
        2h      retract vm {source: /host, id: e}
    """,
    "a judgement is withdrawn": """
        0       start vm
        10m     move  vm {incident: m}
        20m     moved vm {incident: m}
        1h      stop  vm
        2h      judge vm {incident: m, class: migration, fault: user} id=e
        3h      retract vm {source: /host, id: e}
    """,
    "a judgement comes before what it judges": """
        2h      judge vm {incident: m, class: maintenance, fault: user}
        1h      stop  vm
        20m     served vm {incident: m}
        0       start vm
        10m     serve vm {incident: m}
    """,
    "a conflict is resolved before its other body comes": f"""
        0       start vm
        1h      stop  vm {{}} id=e
        3h      {RESOLVE % ("vm", "2026-04-30T18:00:00Z")}
        2h      stop  vm {{}} id=e
        4h      start vm
    """,
    "a conflict is resolved in favour of another instance": f"""
        0       start vm
        0       start other
        1h      stop  vm {{}} id=e
        1h      stop  other {{}} id=e
        3h      {RESOLVE % ("other", "2026-04-30T17:00:00Z")}
    """,
    "the later of two resolutions wins, though it comes first": f"""
        0       start vm
        1h      stop  vm {{}} id=e
        2h      stop  vm {{}} id=e
        4h      {RESOLVE % ("vm", "2026-04-30T17:00:00Z")}
        3h      {RESOLVE % ("vm", "2026-04-30T18:00:00Z")}
    """,
    "a heartbeat that opens the instance comes after later ones": """
        2m      beat  vm {account: acme, sku: gpu.x, cards: 2}
        5m      beat  vm {account: acme, sku: gpu.x, cards: 2}
        1m      beat  vm {account: acme, sku: gpu.x, cards: 1}
        9m      stop  vm
        0       beat  vm {account: acme, sku: gpu.x, cards: 3}
    """,
    "heartbeats go on after the stop": """
        0       start vm
        1m      beat  vm
        2m      stop  vm
        3m      beat  vm
        9m      fail  vm {incident: f}
        4m      beat  vm
        10m     beat  vm
        7m      beat  vm
    """,
    "a session that was rounded loses all its time": """
        0       start vm {plan: hour}
        10m     resize vm {cards: 0}
        20m     stop  vm
        0       stop  vm {} source=/a
        0       resize vm {cards: 0}
    """,
}


@pytest.fixture(scope="module")
def books(server_url: str, template_url: str) -> Iterator[Books]:
    with made(server_url, template_url) as url, opened(url) as found:
        yield found


@pytest.mark.parametrize("accrued", [False, True], ids=["plain", "accrued in between"])
@pytest.mark.parametrize("name", ORDERS)
def test_after_every_event(books: Books, name: str, accrued: bool) -> None:
    case: Json = {"events": ORDERS[name]}
    terms = terms_of(book_of(case), contract_of(case))
    books.fresh(terms)
    told: list[Event] = []
    with checkpoints_every(1):
        for event in events_of(case):
            books.record([event])
            told.append(event)
            last = latest(told)
            if accrued:
                books.accrue(last + 600)
            for as_of in (last, last - 900, last + 7200):
                assert books.bills(as_of) == pure(told, terms, as_of)
            assert books.differences() == []
