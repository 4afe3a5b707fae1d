"""Every way in which a price book or contract is refused, with the whole message a person reads."""

import pytest

from core.errors import TermsInvalid
from pricing.load import parse_terms

BOOK = """\
currency: CNY
time_zone: Asia/Shanghai
tax: {rate: "0.06", included: true}
skus:
  gpu.a: {name: {en: Card A}}
plans:
  on_demand: {unit_s: 1}
  pack_day: {pack: day, renew: false, falls_back_to: on_demand}
prices:
  - {sku: gpu.a, plan: on_demand, per_card_hour: "3.60", from: "2026-01-01T00:00:00+08:00"}
  - {sku: gpu.a, plan: pack_day, per_card_pack: "24.00", from: "2026-01-01T00:00:00+08:00"}
"""
CONTRACT = """\
account: acct-1
tiers:
  - {sku: gpu.a, bands: [{up_to: 100, price: "3.60"}, {up_to: 500, price: "3.00"}, {discount: "0.10"}]}
discount: "0.12"
caps: [{per: instance_day, amount: "60.00"}]
long_term: {min_days: 30, rebate: "0.15", plans: [on_demand], settle: voucher}
credits:
  - {id: A, kind: voucher, amount: "5.00", from: "2026-01-01T00:00:00Z", expires: "2026-06-30T00:00:00Z",
     skus: ["gpu.*"]}
"""
NINES = "9" * 5000
PRICE = "10: prices[0].per_card_hour:"
CARD = '5: skus["gpu.a"].name.en:'
OTHER_BASE = "reads as an octal, hexadecimal, base-60 or underscored number;"
NEITHER = 'is neither a decimal like "3.60" nor a fraction like "19000/48000" (R11)'
OF_STRING = 'must be a string like "3.60" or an integer,'
ROW = '{sku: gpu.a, plan: on_demand, per_card_hour: "3.60", from: "2026-01-01T00:00:00+08:00"}'


def problems_of(text: str | bytes) -> list[str]:
    with pytest.raises(TermsInvalid) as caught:
        parse_terms(text.encode() if isinstance(text, str) else text, "t.yaml")
    return caught.value.problems


def test_the_templates_are_good() -> None:
    assert len(parse_terms(f"{BOOK}---\n{CONTRACT}".encode(), "t.yaml")) == 2


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        # keys
        ("tax", "taxes", "3: taxes: unknown key, did you mean tax?"),
        ("per_card_hour", "per_card_hours", "10: prices[0].per_card_hours: unknown key, did you mean per_card_hour?"),
        ("unit_s", "units", "7: plans.on_demand.units: unknown key, did you mean unit_s?"),
        ("included", "inclusive", "3: tax.inclusive: unknown key, did you mean included?"),
        ("{name", "{label", '5: skus["gpu.a"].label: unknown key'),
        ("currency: CNY", "id: x", "1: currency: is missing (R16)"),
        ("currency: CNY", "currency: CNY\nid: a\nid: b", "3: id: the key stands twice"),
        ("currency: CNY", "currency: CNY\n1: x", "2: the key 1 must be in quotes to be a string"),
        ("currency: CNY", "currency: CNY\n? [x]\n: y", "2: a key must be a string"),
        ("currency: CNY", 'currency: CNY\n"": y', "2: a key is empty"),
        ("{en: Card A}", "{no: Kort}", '5: skus["gpu.a"].name: the key no must be in quotes to be a string (R11)'),
        ("{unit_s: 1}", "", "7: plans.on_demand: has no value; a key left out has its default (R10)"),
        ("{unit_s: 1}", "1", "7: plans.on_demand: must be a mapping, not 1 (R10)"),
        ("time_zone", "account: x\ntime_zone",
         "1: has keys of a price book (prices, plans, skus) and of a contract (account)"),
        # tags, traps of YAML 1.1
        ("Card A", "!!python/object/apply:os.system [ls]",
         '5: skus["gpu.a"].name.en: the tag !!python/object/apply:os.system is not allowed (R11)'),
        ('"3.60"', '!decimal "3.60"', "10: prices[0].per_card_hour: the tag !decimal is not allowed (R11)"),
        ("{unit_s: 1}", "!plan {unit_s: 1}", "7: plans.on_demand: the tag !plan is not allowed (R10)"),
        ("Card A", "yes", '5: skus["gpu.a"].name.en: yes reads as a boolean; put it in quotes (R11)'),
        ("Card A", "12:30:00", f"{CARD} 12:30:00 {OTHER_BASE} put it in quotes (R11)"),
        ("Card A", "2026-01-01", '5: skus["gpu.a"].name.en: 2026-01-01 reads as a date; put it in quotes (R11)'),
        ("Card A", "1e5", '5: skus["gpu.a"].name.en: 1e5 reads as a float; put it in quotes (R11)'),
        ("Card A", "4090", '5: skus["gpu.a"].name.en: must be a string, not 4090 (R11)'),
        ("Card A", "true", '5: skus["gpu.a"].name.en: must be a string, not true (R11)'),
        ("included: true", "included: yes", "3: tax.included: must be true or false, not yes (R18)"),
        ("unit_s: 1", "unit_s: 010", "7: plans.on_demand.unit_s: must be a whole number, not 010 (R10)"),
        ("unit_s: 1", "unit_s: 0o10", "7: plans.on_demand.unit_s: must be a whole number, not 0o10 (R10)"),
        ("unit_s: 1", 'unit_s: "60"', "7: plans.on_demand.unit_s: must be a whole number, not '60' (R10)"),
        ("unit_s: 1", "unit_s: 1.0", "7: plans.on_demand.unit_s: must be a whole number, not 1.0 (R10)"),
        # texts
        ("Card A", '""', '5: skus["gpu.a"].name.en: is empty (R11)'),
        ("Card A", '"A\\u0007"', "5: skus[\"gpu.a\"].name.en: 'A\\x07' holds a control character (R11)"),
        ("Card A", '"A\\u202Eb"', "5: skus[\"gpu.a\"].name.en: 'A\\u202eb' holds a control character (R11)"),
        ("Card A", "A" * 201, f"5: skus[\"gpu.a\"].name.en: '{'A' * 57}...' is longer than 200 characters (R11)"),
        ("currency", 'id: " a"\ncurrency',
         "1: id: ' a' holds a space at an end or a character that does not show"),
        # exact figures
        ('"3.60"', "3.60", '10: prices[0].per_card_hour: 3.60 is a float; write it as a string, "3.60" (R11)'),
        ('"3.60"', ".inf", '10: prices[0].per_card_hour: .inf is a float; write it as a string, ".inf" (R11)'),
        ('"3.60"', "010", f"{PRICE} 010 {OTHER_BASE} write a decimal as a string (R11)"),
        ('"3.60"', "true", f"{PRICE} {OF_STRING} not true (R11)"),
        ('"3.60"', '["1"]', f"{PRICE} {OF_STRING} not a list (R11)"),
        ('"3.60"', NINES,
         f"{PRICE} {'9' * 57}... reads as a number of more than 40 digits; write a decimal as a string (R11)"),
        ('"3.60"', f'"{NINES}"', f"10: prices[0].per_card_hour: '{'9' * 57}...' has more than 40 digits (R11)"),
        ('"3.60"', '"1/0"', "10: prices[0].per_card_hour: '1/0' divides by zero (R11)"),
        ('"3.60"', '"-1"', "10: prices[0].per_card_hour: '-1' is negative (R11)"),
        ('"3.60"', "-1", "10: prices[0].per_card_hour: '-1' is negative (R11)"),
        *(
            ('"3.60"', f'"{text}"', f"{PRICE} '{text}' {NEITHER}")
            for text in ("1e3", "NaN", "Infinity", "1_000", "1,5", " 1", ".5", "5.", "+1", "\u0663", "1/2/3", "0x1")
        ),
        ('"0.06"', '"6"', "3: tax.rate: '6' is not between 0 and 1 (12 % is \"0.12\") (R18)"),
        # instants
        ("time_zone", "from: 2026-01-01\ntime_zone",
         "2: from: '2026-01-01' is a date; write the instant, \"2026-01-01T00:00:00+08:00\" (R1)"),
        ("time_zone", "from: 2026-01-01T00:00:00\ntime_zone",
         "2: from: '2026-01-01T00:00:00' has no offset from UTC; add one, +08:00 or Z (R1)"),
        ("time_zone", "from: 2026-01-01 00:00:00 +08:00\ntime_zone",
         "2: from: '2026-01-01 00:00:00 +08:00' is not an instant like \"2026-01-01T00:00:00+08:00\" (R1)"),
        ("time_zone", "from: 1767196800\ntime_zone",
         '2: from: must be an instant like "2026-01-01T00:00:00+08:00", not 1767196800 (R1)'),
        ("time_zone", 'from: "2026-02-30T00:00:00Z"\ntime_zone',
         "2: from: '2026-02-30T00:00:00Z' does not exist in the calendar (R1)"),
        *(
            ("time_zone", f'from: "{text}"\ntime_zone',
             f"2: from: '{text}' is not between the years 2000 and 2100 (R1)")
            for text in ("0001-01-01T00:00:00+08:00", "9999-12-31T23:59:59Z", "1999-12-31T23:59:59Z",
                         "2100-01-01T00:00:01Z")
        ),
        # names that must exist
        ("CNY", "RMB", "1: currency: 'RMB' is not an ISO 4217 currency (R16)"),
        ("CNY", "cny", "1: currency: 'cny' is not an ISO 4217 currency (R16)"),
        *(
            ("Asia/Shanghai", text, f"2: time_zone: '{text}' is not an IANA time zone like Asia/Shanghai (R2)")
            for text in ("Asia/Xiamen", "Asia", "../etc/passwd", "/etc/passwd", "right/UTC", "localtime", "+08:00")
        ),
        ("- {sku: gpu.a, plan: on_demand", "- {sku: gpu.b, plan: on_demand",
         "10: prices[0].sku: no SKU 'gpu.b', did you mean gpu.a? (R11)"),
        ("plan: on_demand", "plan: ondemand", "10: prices[0].plan: no plan 'ondemand', did you mean on_demand? (R11)"),
        ("gpu.a: {name: {en: Card A}}", "gpu.a: {}\n  gpu.b: {}",
         '6: skus["gpu.b"]: no row of prices names this SKU (R11)'),
        ("gpu.a, plan: pack_day", "'gpu.*', plan: pack_day", "11: prices[1].sku: 'gpu.*' holds one of * ? [ ] (R11)"),
        ("plan: on_demand,", 'plan: on_demand, region: "",', "10: prices[0].region: is empty (R11)"),
        # plans
        ("unit_s: 1", "unit_s: 0", "7: plans.on_demand.unit_s: 0 is not between 1 and 2678400 (R10)"),
        ("unit_s: 1", "unit_s: 2678401", "7: plans.on_demand.unit_s: 2678401 is not between 1 and 2678400 (R10)"),
        ("unit_s: 1", "minimum_s: -1", "7: plans.on_demand.minimum_s: -1 is not between 0 and 2678400 (R10)"),
        ("unit_s: 1", "exclusions: all", "7: plans.on_demand.exclusions: must be 'card' or 'gang', not 'all' (R6)"),
        ("pack: day", "pack: week", "8: plans.pack_day.pack: must be 'day' or 'month', not 'week' (R12)"),
        ("unit_s: 1", "renew: true", "7: plans.on_demand.renew: only a plan with pack has it (R12)"),
        ("pack: day", "pack: day, unit_s: 60", "8: plans.pack_day.unit_s: a pack has no unit and no minimum (R10)"),
        (", falls_back_to: on_demand", "",
         "8: plans.pack_day.falls_back_to: is missing; a pack that does not renew names what comes after it (R12)"),
        ("falls_back_to: on_demand", "falls_back_to: on_demnd",
         "8: plans.pack_day.falls_back_to: no plan 'on_demnd', did you mean on_demand? (R12)"),
        ("falls_back_to: on_demand", "falls_back_to: pack_day",
         "8: plans.pack_day.falls_back_to: 'pack_day' is itself a pack (R12)"),
        # price rows
        ('per_card_hour: "3.60", ', "",
         "10: prices[0]: needs exactly one of per_card_hour and per_card_pack (R11)"),
        ('per_card_hour: "3.60"', 'per_card_hour: "3.60", per_card_pack: "1"',
         "10: prices[0]: needs exactly one of per_card_hour and per_card_pack (R11)"),
        ("per_card_hour", "per_card_pack",
         "10: prices[0].per_card_pack: plan 'on_demand' is no pack and needs per_card_hour (R11)"),
        ("per_card_pack", "per_card_hour",
         "11: prices[1].per_card_hour: plan 'pack_day' is a pack and needs per_card_pack (R11)"),
        (f"  - {ROW}\n", f"  - {ROW}\n  - {ROW}\n",
         "11: prices[1]: same sku, plan, region and from as prices[0]; a second has one price (R11)"),
        ('"3.60", from: "2026-01-01T00:00:00+08:00"', '"3.60"', "10: prices[0].from: is missing (R11)"),
        # the rest
        ("time_zone", "heartbeat_timeout_s: 0\ntime_zone", "2: heartbeat_timeout_s: 0 is not between 1 and 86400 (R9)"),
        ("time_zone", "xids: {user: [13], platform: [79, 13]}\ntime_zone",
         "2: xids.platform[1]: 13 is already listed under user (R7)"),
        ("time_zone", "xids: {no_outage: [63, 63]}\ntime_zone",
         "2: xids.no_outage[1]: 63 is already listed under no_outage (R7)"),
        ("time_zone", 'xids: {user: ["13"]}\ntime_zone', "2: xids.user[0]: must be a whole number, not '13' (R7)"),
        ("time_zone", "xids: {fault: [1]}\ntime_zone", "2: xids.fault: unknown key"),
    ],
)  # fmt: skip
def test_a_bad_price_book_is_refused(old: str, new: str, problem: str) -> None:
    assert old in BOOK
    assert problems_of(BOOK.replace(old, new, 1)) == [f"t.yaml:{problem}"]


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("account: acct-1", "acount: acct-1",
         ["1: account: is missing", "1: acount: unknown key, did you mean account?"]),
        ("acct-1", "1001", ["1: account: must be a string, not 1001"]),
        ("acct-1", "acct-1\ntime_zone: Mars/Base",
         ["2: time_zone: 'Mars/Base' is not an IANA time zone like Asia/Shanghai (R2)"]),
        ("gpu.a,", "'gpu.[ab]',",
         ["3: tiers[0].sku: 'gpu.[ab]' holds one of ? [ ]; only * stands for other text (R13)"]),
        ("gpu.a,", "gpu.a, mode: stepped,",
         ["3: tiers[0].mode: must be 'graduated' or 'volume', not 'stepped' (R13)"]),
        ("gpu.a,", "gpu.a, measure: hours,",
         ["3: tiers[0].measure: must be 'card_hours' or 'spend', not 'hours' (R13)"]),
        ("up_to: 100", "up_to: 100.5",
         ['3: tiers[0].bands[0].up_to: 100.5 is a float; write it as a string, "100.5" (R13)']),
        ("up_to: 100", "up_to: 0", ["3: tiers[0].bands[0].up_to: must be above 0 (R13)"]),
        ("up_to: 500", "up_to: 100", ["3: tiers[0].bands[1].up_to: must be above '100' of the band before (R13)"]),
        ("up_to: 500, ", "", ["3: tiers[0].bands[1]: has no up_to; only the last band may go without (R13)"]),
        ('{discount: "0.10"}', '{discount: "0.10", price: "1"}',
         ["3: tiers[0].bands[2]: has a price and a discount; give one (R13)"]),
        ('{discount: "0.10"}', '{discont: "0.10"}',
         ["3: tiers[0].bands[2].discont: unknown key, did you mean discount?"]),
        ('{discount: "0.10"}', '{discount: "1.10"}',
         ["3: tiers[0].bands[2].discount: '1.10' is not between 0 and 1 (12 % is \"0.12\") (R13)"]),
        ('[{up_to: 100, price: "3.60"}, {up_to: 500, price: "3.00"}, {discount: "0.10"}]', "[]",
         ["3: tiers[0].bands: is empty (R13)"]),
        ('"0.12"', "12", ['4: discount: 12 is not between 0 and 1 (12 % is "0.12") (R15)']),
        ('"0.12"', "0.12", ['4: discount: 0.12 is a float; write it as a string, "0.12" (R15)']),
        ('"0.12"', "", ["4: discount: has no value; a key left out has its default (R15)"]),
        ("instance_day", "day",
         ["5: caps[0].per: must be 'instance_day', 'instance_month' or 'account_month', not 'day' (R14)"]),
        ('"60.00"}', '"60.00"}, {per: instance_day, amount: 1}',
         ["5: caps[1].per: caps[0] is already per instance_day (R14)"]),
        ('"60.00"', "-60", ["5: caps[0].amount: '-60' is negative (R14)"]),
        ('[{per: instance_day, amount: "60.00"}]', "{}", ["5: caps: must be a list, not a mapping (R14)"]),
        ("min_days: 30", "min_days: 0", ["6: long_term.min_days: 0 is not between 1 and 3650 (R21)"]),
        ("min_days: 30", "min_days: 3651", ["6: long_term.min_days: 3651 is not between 1 and 3650 (R21)"]),
        ('"0.15"', '"1.5"', ["6: long_term.rebate: '1.5' is not between 0 and 1 (12 % is \"0.12\") (R21)"]),
        ("[on_demand]", "[]", ["6: long_term.plans: is empty (R21)"]),
        ("settle: voucher", "settle: cash", ["6: long_term.settle: must be 'voucher' or 'netted', not 'cash' (R21)"]),
        ('"5.00"', '"0.00"', ["8: credits[0].amount: must be above 0 (R19)"]),
        ("kind: voucher, ", "", ["8: credits[0].kind: is missing (R19)"]),
        ('expires: "2026-06-30T00:00:00Z"', 'expires: "2026-01-01T08:00:00+08:00"',
         ["8: credits[0].expires: must be later than from (R19)"]),
        ('["gpu.*"]', "[]", ["9: credits[0].skus: is empty (R19)"]),
        ('["gpu.*"]', "[gpu.a, gpu.a]", ["9: credits[0].skus[1]: 'gpu.a' stands twice (R19)"]),
        ('"2026-01-01T00:00:00Z"', '"2026-01-01T00:00:00"',
         ["8: credits[0].from: '2026-01-01T00:00:00' has no offset from UTC; add one, +08:00 or Z (R19)"]),
        ("credits:\n",
         'credits:\n  - {id: A, kind: x, amount: 1, from: "2026-01-01T00:00Z", expires: "2027-01-01T00:00Z"}\n',
         ["9: credits[1].id: credits[0] is already called 'A' (R19)"]),
    ],
)  # fmt: skip
def test_a_bad_contract_is_refused(old: str, new: str, problem: list[str]) -> None:
    assert old in CONTRACT
    assert problems_of(CONTRACT.replace(old, new, 1)) == [f"t.yaml:{each}" for each in problem]
