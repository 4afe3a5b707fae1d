"""The one function that prices usage: what the console shows, drafts, invoices, what-ifs and forecasts (R15).

Pure: usage, terms, rentals and grants in, bills out. Nothing here knows a clock or a database.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from core.calendar import Calendar, calendar
from core.money import minor_digits
from pricing.caps import Held, cap_factors
from pricing.charges import Rates, charge_of, charges_by_rental, usage_lines
from pricing.contract import Contract, Credit
from pricing.credits import Paid, credit_uses, in_order, opening_balances, pay, payables, reduce_balances
from pricing.lines import Line, RoundedLine, finished_line, rounded_line
from pricing.packs import PackTerms, PaidByMonth, PaidPacks, cash_shares, pack_line
from pricing.quantities import Detail, Quantities, summed
from pricing.rebate import ChargesByRental, Netted, Rebate, Unrewarded, Voucher, rebate_of
from pricing.statement import Bill, totals_of
from pricing.tax import tax_of, tax_parts
from pricing.terms import MonthTerms
from pricing.tiers import tiered_prices
from pricing.usage import MonthUsage, Rental
from pricing.windows import Windows, credit_windows

__all__ = ["Bill", "MonthTerms", "bill_account"]


@dataclass(slots=True)
class _Account:
    """What is the same for all months of an account, and what one month hands to the next."""

    name: str
    rentals: Sequence[Rental]
    credits: Sequence[Credit]
    as_of: int
    by_rental: bool
    balances: dict[str, int]
    unrewarded: Unrewarded = field(default_factory=Unrewarded)
    paid_packs: PaidByMonth = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Month:
    """One month: its usage, its terms, and what these make of its calendar, credits and rentals."""

    usage: MonthUsage
    terms: MonthTerms
    days: Calendar
    digits: int
    credits: Sequence[Credit]
    windows: Windows
    rebate: Rebate | None
    packs: PackTerms


def bill_account(
    account: str,
    months: Sequence[MonthUsage],
    terms: Callable[[int], MonthTerms],
    rentals: Sequence[Rental],
    credits: Sequence[Credit],
    as_of: int,
) -> list[Bill]:
    """The bills of an account, one for each month that has any row or earns a voucher, months ascending.

    ``months`` are all months from the account's first, since balances, packs and rentals reach from one into the
    next. ``terms`` gives what is in force in a month, pinned where it was invoiced. ``credits`` are all grants there
    are, contract and issued ones, with unique ids. A price is never looked up here: rows carry theirs (R11).
    """
    if not months:
        return []
    ordered = sorted(months, key=lambda usage: usage.month)
    in_force = {usage.month: terms(usage.month) for usage in ordered}
    if len(in_force) < len(ordered):
        raise ValueError(f"a month of account {account} is given twice")
    by_rental = any(month_terms.contract.long_term for month_terms in in_force.values())
    balances = opening_balances(credits, minor_digits(in_force[ordered[0].month].book.currency))
    state = _Account(account, rentals, credits, as_of, by_rental, balances)
    bills = (_bill_month(state, _month(state, usage, in_force[usage.month])) for usage in ordered)
    return [bill for bill in bills if bill is not None]


def _month(state: _Account, usage: MonthUsage, terms: MonthTerms) -> _Month:
    contract, number = terms.contract, usage.month
    days = calendar(contract.time_zone or terms.book.time_zone)
    # A grant recorded after a month was invoiced must not even move the windows of that month.
    usable = [credit for credit in state.credits if credit.first_month <= number]
    reduce_balances(usable, number, state.balances, minor_digits(terms.book.currency))
    windows = credit_windows(usable, days.month_start(number), days.month_start(number + 1))
    long_term = contract.long_term
    return _Month(
        usage=usage,
        terms=terms,
        days=days,
        digits=minor_digits(terms.book.currency),
        credits=in_order(usable, state.balances),
        windows=windows,
        rebate=rebate_of(long_term, state.rentals, number, days, state.as_of) if long_term else None,
        packs=PackTerms(number, windows, contract.discount, days, state.paid_packs),
    )


def _bill_month(state: _Account, month: _Month) -> Bill | None:
    """One month through all steps of R15, in the only place that knows their order.

    Excluding and rounding up say what was used, so they come before any price. Tiers look at the whole month's use,
    so they come before what tells one rental from another. The contract discount is on what tiers leave, the rebate
    on what the rental would have cost then, and a cap on what is still to pay: it promises a sum, so nothing exact
    follows it. Rounding makes money of a figure, once; credits pay money, so they follow it. A refund returns the
    cash that credits left of a pack, so it waits for them. Tax is on the cash of all lines, so it is last.
    """
    contract = month.terms.contract
    # exclude, round up: rows come by class, free time makes no line, padding is charged time
    sums = summed(month.usage.rows, month.windows, _detail(contract, state.by_rental))
    # price, tier, contract discount
    tiered = tiered_prices(contract.tiers, sums.charged_by_line())
    units = {line: price * (1 - contract.discount) for line, price in tiered.items()}
    # rebate where it is netted
    netted = month.rebate.netted() if month.rebate else Netted()
    charges = {cell: charge_of(cell, seconds, units, netted) for cell, seconds in sums.charged.items()}
    # cap
    caps = cap_factors(contract.caps, charges, Held(sums.allocated, month.usage.held_seconds))
    # round
    lines = [rounded_line(line, month.digits) for line in usage_lines(sums, tiered, units, charges, caps)]
    lines += _pack_lines(month, sums, refunds=False)
    # credits, then refunds of what they left
    paid = pay(payables(lines), month.credits, month.windows, state.balances)
    _remember_packs(month, lines, paid)
    lines += _pack_lines(month, sums, refunds=True)

    vouchers = _settle_rebate(state, month, charges_by_rental(charges, caps)) if state.by_rental else ()
    uses = credit_uses(month.credits, paid, month.windows, state.balances, state.as_of, month.digits)
    # due, with its tax
    finished = _finished_lines(month, lines, paid)
    taxes = tax_parts(finished, month.digits)
    if not month.usage.rows and not vouchers:
        return None
    return Bill(
        account=state.name,
        month=month.usage.month,
        currency=month.terms.book.currency,
        time_zone=month.days.zone.key,
        card_seconds=sums.card_seconds(),
        totals=totals_of(finished, taxes, month.digits),
        lines=finished,
        credits=uses,
        vouchers=vouchers,
        taxes=taxes,
        rates=Rates(units, netted, caps, month.packs),
    )


def _detail(contract: Contract, by_rental: bool) -> Detail:
    caps = {cap.per for cap in contract.caps}
    by_instance = by_rental or not caps.isdisjoint({"instance_day", "instance_month"})
    return Detail(instance=by_instance, day="instance_day" in caps, rental=by_rental)


def _pack_lines(month: _Month, sums: Quantities, refunds: bool) -> list[RoundedLine]:
    chosen = [line for line in sums.packs if (line.kind == "pack_refund") == refunds]
    return [rounded_line(pack_line(line, sums.packs[line], month.packs), month.digits) for line in chosen]


def _remember_packs(month: _Month, lines: Iterable[RoundedLine], paid: Paid) -> None:
    """Write down how the packs of this month were paid; refunds and later exclusions ask for it."""
    by_key = {line.key: line for line in lines}
    for key, line in by_key.items():
        if key.kind == "pack":
            excluded = by_key.get(key._replace(kind="pack_exclusion"))
            credited = {window: sum(uses.values()) for window, uses in paid.get(key, {}).items()}
            shares = cash_shares(line.windows, excluded.windows if excluded else {}, credited)
            month.packs.paid[key, month.usage.month] = PaidPacks(month.windows, month.packs.discount, shares)


def _settle_rebate(state: _Account, month: _Month, charged: ChargesByRental) -> tuple[Voucher, ...]:
    state.unrewarded.add(charged)
    return month.rebate.settle(charged, state.unrewarded, month.digits) if month.rebate else ()


def _finished_lines(month: _Month, lines: Iterable[RoundedLine], paid: Paid) -> tuple[Line, ...]:
    """The lines with the credits used on them and their tax, in order of their keys."""
    finished = []
    for line in sorted(lines, key=lambda line: line.key):
        credits: dict[str, int] = {}
        for uses in paid.get(line.key, {}).values():
            for credit, amount in uses.items():
                credits[credit] = credits.get(credit, 0) + amount
        tax = tax_of(month.terms.book, line.key.sku, line.key.plan)
        finished.append(finished_line(line, credits, tax, month.digits))
    return tuple(finished)
