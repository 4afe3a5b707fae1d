"""The canonical form of terms: what it looks like, that it never changes, and that it gives back what went in."""

import hashlib
import json

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from core.calendar import FIRST_SECOND, LAST_SECOND
from pricing.book import ALWAYS, Plan, Price, PriceBook, Sku, Tax
from pricing.canonical import canonical, from_canonical
from pricing.contract import Band, Cap, Contract, Credit, LongTerm, Tier
from pricing.load import parse_terms
from tests.test_load_terms import BOOK, CONTRACT, book_of, contract_of


def test_the_canonical_form_is_written_and_stays() -> None:
    assert canonical(contract_of(CONTRACT.partition("tiers")[0])) == (
        b'{"account":"acct-1","caps":[],"credits":[],"discount":"0","form":1,"from":1767196800,"kind":"contract",'
        b'"long_term":null,"price_book":"standard","tiers":[],"time_zone":null}'
    )
    pinned = {
        BOOK: "e15c1dfba650c903a83923bc60e2819b9e3415a6fd61bb4378784dbe56a66749",
        CONTRACT: "38057751203aee239052a06702d06e722f958f5a9abe893c278b771e8c56f788",
    }
    for text, digest in pinned.items():
        (terms,) = parse_terms(text.encode(), "t.yaml")
        assert hashlib.sha256(canonical(terms)).hexdigest() == digest


def test_two_spellings_of_one_book_have_one_canonical_form() -> None:
    raw = yaml.safe_load(BOOK)
    raw["prices"].reverse()
    raw["prices"][1]["per_card_hour"] = "18/5"
    raw["from"] = "2025-12-31T16:00:00Z"
    assert canonical(book_of(json.dumps(raw, sort_keys=True))) == canonical(book_of(BOOK))


words = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
figures = st.fractions(min_value=0)
instants = st.integers(FIRST_SECOND, LAST_SECOND)
since = st.just(ALWAYS) | instants
taxes = st.builds(Tax, rate=figures, included=st.booleans())
skus = st.builds(Sku, names=st.dictionaries(words, words, max_size=2), name=words, tax=st.none() | taxes)
plans = st.builds(Plan, name=words, tax=st.none() | taxes)
prices = st.builds(Price, words, words, st.none() | words, figures, since)
books = st.builds(
    PriceBook,
    id=words,
    currency=words,
    time_zone=words,
    tax=taxes,
    skus=st.dictionaries(words, skus, max_size=2),
    plans=st.dictionaries(words, plans, max_size=2),
    prices=st.lists(prices, max_size=3).map(tuple),
    since=since,
    heartbeat_timeout_s=st.integers(1, 86_400),
    xids=st.dictionaries(st.integers(0, 999), words, max_size=3),
)
bands = st.builds(Band, st.none() | figures, st.none() | figures, st.none() | figures)
modes, measures = st.sampled_from(["graduated", "volume"]), st.sampled_from(["card_hours", "spend"])
tiers = st.builds(Tier, words, modes, measures, st.lists(bands, max_size=3).map(tuple))
caps = st.builds(Cap, st.sampled_from(["instance_day", "instance_month", "account_month"]), figures)
long_terms = st.builds(LongTerm, rebate=figures, plans=st.none() | st.frozensets(words, max_size=2))
credit_grants = st.builds(
    Credit, words, words, figures, since, instants, st.lists(words, max_size=2).map(tuple), st.just(ALWAYS) | instants
)
contracts = st.builds(
    Contract,
    account=words,
    since=since,
    price_book=words,
    time_zone=st.none() | words,
    tiers=st.lists(tiers, max_size=2).map(tuple),
    discount=figures,
    caps=st.lists(caps, max_size=2).map(tuple),
    long_term=st.none() | long_terms,
    credits=st.lists(credit_grants, max_size=2).map(tuple),
)


@given(books | contracts)
def test_the_canonical_form_gives_back_what_went_in(terms: PriceBook | Contract) -> None:
    assert from_canonical(canonical(terms)) == terms


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "Expecting value"),
        (b"[]", "not canonical terms: TypeError"),
        (b'{"form":2}', "canonical form 2 is not known"),
        (b'{"form":1,"kind":"book"}', "not canonical terms: KeyError"),
        (b" " + canonical(Contract("a")), "not in canonical form"),
        (canonical(Contract("a")).replace(b'"0"', b'"0/7"'), "not in canonical form"),
    ],
)
def test_other_bytes_are_not_canonical(data: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        from_canonical(data)
