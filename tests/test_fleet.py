"""The generated month: the same for a seed, readable, and in the proportions of a real fleet."""

from __future__ import annotations

import json
from collections import Counter
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from metering.events import read_event
from metering.fleet import fleet_events
from metering.fleet_profiles import CAUSES, FAILURES_PER_CARD_DAY, TENANTS, USER_FAULTS
from pricing.book import PriceBook
from pricing.contract import Contract
from pricing.crosscheck import check_contract
from pricing.load import read_terms

EXAMPLES = Path(__file__).parents[1] / "examples"
MONTH_START, MONTH_END = "2026-02-28T16:00:00", "2026-03-31T16:00:00"

Event = dict[str, Any]


@cache
def stream() -> list[Event]:
    return [json.loads(line) for line in fleet_events("2026-03", seed=1)]


@cache
def facts() -> list[Event]:
    """Each event once, in order of time, a stop before a start of the same second."""
    once = {(event["source"], event["id"]): event for event in stream()}
    return sorted(once.values(), key=lambda event: (event["time"][:19], event["type"] == "instance.started"))


def of_type(kind: str) -> list[Event]:
    return [event for event in facts() if event["type"] == kind]


def card_days() -> float:
    """Card-days of all sessions, resizes aside, up to the month's end."""
    running: dict[str, tuple[datetime, int]] = {}
    total = timedelta()
    for event in facts():
        at = datetime.fromisoformat(event["time"])
        if event["type"] in ("instance.started", "instance.stopped") and event["subject"] in running:
            start, cards = running.pop(event["subject"])
            total += cards * (at - start)
        if event["type"] == "instance.started":
            running[event["subject"]] = at, event["data"]["cards"]
    total += sum(
        (cards * (datetime.fromisoformat(MONTH_END + "Z") - at) for at, cards in running.values()), timedelta()
    )
    return total / timedelta(days=1)


def test_a_seed_gives_one_month() -> None:
    assert list(fleet_events("2026-03", seed=7, instances=40)) == list(fleet_events("2026-03", seed=7, instances=40))
    assert list(fleet_events("2026-03", seed=7, instances=40)) != list(fleet_events("2026-03", seed=8, instances=40))


def test_every_line_is_an_event_of_the_service() -> None:
    lines = list(fleet_events("2026-03", seed=1))
    assert 5_000 <= len(lines) <= 20_000
    for line in lines:
        read_event(line)


def test_one_identity_has_one_body() -> None:
    said = {(event["source"], event["id"], json.dumps(event)) for event in stream()}
    assert len(said) == len(facts())


@pytest.mark.parametrize("month", ["2024-02", "2026-02", "2026-03", "2026-12"])
def test_events_lie_within_the_month_and_ten_days_before(month: str) -> None:
    start = datetime.fromisoformat(f"{month}-01T00:00:00+08:00")
    following = (start + timedelta(days=31)).replace(day=1)
    times = [datetime.fromisoformat(json.loads(line)["time"]) for line in fleet_events(month, seed=3, instances=60)]
    assert start - timedelta(days=10) <= min(times) < start
    assert following - timedelta(days=3) < max(times) < following


def test_the_stream_is_late_doubled_and_shuffled() -> None:
    doubled = len(stream()) - len(facts())
    latest, late = "", 0
    for event in stream():
        late += event["time"] < latest
        latest = max(latest, event["time"])
    assert 0.01 < doubled / len(stream()) < 0.03
    assert late > len(stream()) // 50


def test_the_fleet_has_the_size_and_cards_of_the_market() -> None:
    first = {event["subject"]: event["data"] for event in reversed(of_type("instance.started"))}
    assert 1_500 <= sum(data["cards"] for data in first.values()) <= 2_500
    assert {data["sku"] for data in first.values()} == {"gpu.rtx4090", "gpu.a100-80g", "gpu.h100-80g", "gpu.c500-64g"}
    assert {data["account"] for data in first.values()} == {tenant.account for tenant in TENANTS}


def test_cards_fail_at_the_rate_of_real_ones() -> None:
    expected = failed = 0.0
    platform = {cause.cause for cause in CAUSES}
    for seed in range(20):
        events = [json.loads(line) for line in fleet_events("2026-03", seed)]
        failed += len(
            {e["data"]["incident"] for e in events if e["type"] == "failure.started" and e["data"]["cause"] in platform}
        )
    expected = 20 * card_days() * FAILURES_PER_CARD_DAY
    assert 0.75 * expected < failed < 1.25 * expected


def test_every_failure_ends_and_names_cards_that_are_there() -> None:
    cards = {event["subject"]: event["data"]["cards"] for event in reversed(of_type("instance.started"))}
    ended = {event["data"]["incident"] for event in of_type("failure.ended")}
    for event in of_type("failure.started"):
        assert event["data"]["incident"] in ended
        assert all(0 <= card < cards[event["subject"]] for card in event["data"].get("cards", []))


def test_programs_of_users_fail_too() -> None:
    causes = Counter(event["data"]["cause"] for event in of_type("failure.started"))
    assert all(causes[cause.cause] == 1 for cause in USER_FAULTS)


def test_migrations_are_over_within_half_a_minute() -> None:
    ended = {event["data"]["incident"]: event["time"] for event in of_type("migration.ended")}
    for event in of_type("migration.started"):
        length = datetime.fromisoformat(ended[event["data"]["incident"]]) - datetime.fromisoformat(event["time"])
        assert timedelta() < length < timedelta(seconds=30)


def test_every_kind_of_story_is_told() -> None:
    kinds = Counter(event["type"] for event in facts())
    plans = {event["data"]["plan"] for event in of_type("instance.started")}
    assert plans == {"on_demand", "hourly", "preemptible", "gang", "pack_day", "pack_month"}
    assert all(kinds[kind] >= 10 for kind in ("instance.resized", "idle.started", "maintenance.started"))
    assert kinds["instance.heartbeat"] > 1_000


def test_long_rentals_pass_thirty_days_within_the_month() -> None:
    stopped = {event["subject"] for event in of_type("instance.stopped")}
    limit = datetime.fromisoformat(MONTH_END + "Z") - timedelta(days=30)
    long = [
        event
        for event in of_type("instance.started")
        if event["subject"] not in stopped and datetime.fromisoformat(event["time"]) < limit
    ]
    assert len(long) >= 5
    assert min(event["time"] for event in long) < MONTH_START


def test_one_stop_is_stray() -> None:
    described = {event["subject"] for event in facts() if "account" in event["data"]}
    assert len([event for event in of_type("instance.stopped") if event["subject"] not in described]) == 1


def test_a_fleet_has_room_for_its_stories() -> None:
    with pytest.raises(ValueError, match="at least 20 instances"):
        next(fleet_events("2026-03", seed=1, instances=3))


def test_everything_sold_has_a_price_and_every_tenant_a_contract() -> None:
    (book,) = read_terms(EXAMPLES / "price-book.yaml")
    assert isinstance(book, PriceBook)
    priced = {(price.sku, price.plan) for price in book.prices if price.region is None}
    assert {(event["data"]["sku"], event["data"]["plan"]) for event in of_type("instance.started")} <= priced
    contracts = [terms for path in (EXAMPLES / "contracts").glob("*.yaml") for terms in read_terms(path)]
    assert {contract.account for contract in contracts if isinstance(contract, Contract)} == {
        tenant.account for tenant in TENANTS
    }
    for contract in contracts:
        assert isinstance(contract, Contract)
        assert list(check_contract(contract, book)) == []
