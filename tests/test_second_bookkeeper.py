"""The second bookkeeper, second by second, agrees with the engine on every generated stream."""

import json

from hypothesis import HealthCheck, given, settings

from metering.door import accept
from metering.rate import rate
from pricing.terms import Terms
from tests import bookkeeper
from tests.ledger_kit import Json, examples, lines_of, second, terms_of
from tests.streams import Stream, streams


@settings(max_examples=examples(300), suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(streams(resolutions=True))
def test_two_bookkeepers_write_the_same_bills(stream: Stream) -> None:
    events, book, contract, as_of = stream
    ours = rate(accept(lines_of(events)), Terms.of(*terms_of(book, contract)), second(as_of)).to_json()
    theirs = bookkeeper.rate(events, book, contract, as_of)
    assert figures(ours) == figures(theirs)


@settings(max_examples=examples(25), suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(streams(resolutions=True))
def test_stepping_over_seconds_in_which_nothing_changes_changes_nothing(stream: Stream) -> None:
    """The bookkeeper's own short cut, on streams that are short enough to walk."""
    events, book, contract, as_of = stream
    seconds = sorted(line.second for line in accept(lines_of(events)).facts)
    if not seconds or seconds[-1] - seconds[0] > 12 * 3600 or as_of is None:
        return
    walked = bookkeeper.rate(events, book, contract, as_of, every_second=True)
    assert walked == bookkeeper.rate(events, book, contract, as_of)


def figures(answer: Json) -> Json:
    """What two bookkeepers can be expected to agree on, to the cent and to the second."""
    bills = [
        {
            "of": [bill["account"], bill["month"], bill["currency"]],
            "card_seconds": bill["card_seconds"],
            "totals": bill["totals"],
            "credits": sorted([c["id"], c["applied"], c["left"]] for c in bill["credits"]),
            "vouchers": sorted([v["instance"], v["amount"], v["earned_at"]] for v in bill["vouchers"]),
        }
        for bill in answer["bills"]
    ]
    reasons = sorted(reject["reason"] for reject in answer["rejects"])
    found: Json = json.loads(json.dumps({"bills": bills, "rejects": reasons, "duplicates": answer["duplicates"]}))
    return found
