"""Files from which no terms can be read, and how many problems of one file are told."""

import gzip
import time
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from core.errors import BillingError, InputUnusable
from pricing import yaml_tree
from pricing.load import parse_terms, read_terms
from tests.test_bad_terms import BOOK, CONTRACT, problems_of

NOT_YAML = [
    (
        "account: [a",
        "1: not YAML: did not find expected ',' or ']' (while parsing a flow sequence that begins in line 1)",
    ),
    ("account: a: b", "1: not YAML: mapping values are not allowed in this context"),
    ("account: *a", "1: alias *a names no anchor before it"),
    ("account: a\ntiers: &t [*t]", "2: alias *t stands inside the value that it names"),
    ("<<: [{account: a}, x]", "1: << merges mappings only"),
    ("just words", "1: must be a mapping, not 'just words'"),
    ("[account]", "1: must be a mapping, not a list"),
    ("# words\nname: x", "2: is neither a price book (prices, plans, skus) nor a contract (account)"),
    ("account: a\n---\naccount: a", "3: 'a' is given twice from the same instant"),
    ("[" * 200_000, "1: nested more than 50 levels deep"),
    ("[" * 200_000 + "]" * 200_000, "1: nested more than 50 levels deep"),
    ("- " * 200_000, "1: nested more than 50 levels deep"),
    ('{"a": ' * 51 + "1" + "}" * 51, "1: nested more than 50 levels deep"),
    (f"a: &a {'[' * 30}{']' * 30}\nb: {'[' * 30}*a{']' * 30}", "2: nested more than 50 levels deep"),
]


@pytest.mark.parametrize(("text", "problem"), NOT_YAML, ids=[text[:20] for text, _ in NOT_YAML])
def test_what_no_terms_can_be_read_from_is_refused(text: str, problem: str) -> None:
    assert problems_of(text) == [f"t.yaml:{problem}"]


@pytest.mark.parametrize("loader", [yaml.SafeLoader, getattr(yaml, "CSafeLoader", yaml.SafeLoader)])
def test_an_alias_bomb_is_refused_at_once(loader: type, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml_tree, "_LOADER", loader)
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 30)]
    started = time.perf_counter()
    assert problems_of("\n".join(lines)) == ["t.yaml:6: more than 200000 values, aliases followed"]
    assert problems_of("[" * 200_000) == ["t.yaml:1: nested more than 50 levels deep"]
    assert time.perf_counter() - started < 5


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "t.yaml: is empty"),
        (b" \n", "t.yaml: is empty"),
        (b"# a remark\n---\n---\n", "t.yaml: holds no price book and no contract"),
        (gzip.compress(BOOK.encode()), "t.yaml: is gzip data; unpack it first"),
        (b"PK\x03\x04", "t.yaml: is a zip archive; unpack it first"),
        ("account: a".encode("utf-16"), "t.yaml: is UTF-16, not UTF-8"),
        (b"account: a\nname: \xff", "t.yaml:2: not UTF-8 (byte 0xff)"),
        (b"account: a\n\x00", "t.yaml:2: control character U+0000"),
        (b"account: \x1b[31ma", "t.yaml:1: control character U+001B"),
        (b"#" * (5 * 2**20 + 1), "t.yaml: larger than 5 MiB"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_a_file_that_is_no_text_is_unusable(data: bytes, message: str) -> None:
    with pytest.raises(InputUnusable) as caught:
        parse_terms(data, "t.yaml")
    assert str(caught.value) == message


def test_a_file_that_cannot_be_opened_is_unusable(tmp_path: Path) -> None:
    for path, reason in ((tmp_path / "none.yaml", "No such file or directory"), (tmp_path, "Is a directory")):
        with pytest.raises(InputUnusable) as caught:
            read_terms(path)
        assert str(caught.value) == f"{path}: cannot be read: {reason}"


def test_all_problems_of_a_file_are_told_in_the_order_of_their_lines() -> None:
    text = BOOK.replace("CNY", "RMB").replace("3.60", "-3").replace("pack_day,", "pack_dy,").replace("unit_s", "unit")
    assert problems_of(f"{text}---\n{CONTRACT}colour: red\n---\nacc: [") == [
        "t.yaml:1: currency: 'RMB' is not an ISO 4217 currency (R16)",
        "t.yaml:7: plans.on_demand.unit: unknown key, did you mean unit_s?",
        "t.yaml:10: prices[0].per_card_hour: '-3' is negative (R11)",
        "t.yaml:11: prices[1].plan: no plan 'pack_dy', did you mean pack_day? (R11)",
        "t.yaml:22: colour: unknown key",
        "t.yaml:24: not YAML: did not find expected node content",
    ]


def test_what_an_alias_repeats_is_told_once_at_its_own_line() -> None:
    assert problems_of("account: b\ncredits: []\ncaps: [&d {per: x}, *d]") == [
        "t.yaml:3: caps[0].per: must be 'instance_day', 'instance_month' or 'account_month', not 'x' (R14)",
        "t.yaml:3: caps[0].amount: is missing (R14)",
    ]


def test_a_flood_of_problems_is_cut() -> None:
    problems = problems_of("account: a\n" + "".join(f"k{i}: 1\n" for i in range(5000)))
    assert (len(problems), problems[-1]) == (101, "t.yaml:1: more problems follow")


def refusal_of(data: bytes) -> str | None:
    try:
        parse_terms(data, "t.yaml")
    except BillingError as error:
        return str(error)
    return None


@given(st.sampled_from([BOOK, CONTRACT]), st.data())
def test_whatever_happens_to_a_file_it_loads_or_is_refused_in_words(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 20)))
    spoilt = (
        text[:start] + data.draw(st.text(max_size=8) | st.sampled_from(list("{}[]:,&*!|>%@`'\"\n\t#-~"))) + text[end:]
    )
    message = refusal_of(spoilt.encode("utf-8", "surrogatepass"))
    assert message is None or (message.startswith("t.yaml:") and "\n" not in message)


@given(st.binary(max_size=60))
def test_any_bytes_are_refused_in_words(data: bytes) -> None:
    with pytest.raises(BillingError):
        parse_terms(data, "t.yaml")
