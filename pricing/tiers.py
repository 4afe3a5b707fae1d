"""Tiers: what a price per card-hour becomes by the month's quantity or spend (R13).

A tier measures everything in its scope together, and prices each card-second of it at the month's mix of bands. So no
second is first or last, and no order of usage can change a price.
"""

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from fractions import Fraction

from pricing.contract import Band, Tier
from pricing.quantities import LineKey

HOUR = 3600

UNTOUCHED = Band(None)
"""What holds beyond a last band that has an upper bound: the price stays as it was met."""


def tiered_prices(tiers: Sequence[Tier], seconds: Mapping[LineKey, int]) -> dict[LineKey, Fraction]:
    """The price per card-hour of each line after all tiers, in the order of the contract.

    ``seconds`` are the charged card-seconds (billable and padding, none under a pack) of each line of the month.
    """
    prices = {line: line.price for line in seconds}
    for tier in tiers:
        scope = [line for line in seconds if fnmatchcase(line.sku, tier.sku)]
        shares = band_shares(tier, _measured(tier, scope, seconds))
        for line in scope:
            prices[line] = sum((share * _in_band(band, prices[line]) for band, share in shares), Fraction(0))
    return prices


def band_shares(tier: Tier, measured: Fraction) -> list[tuple[Band, Fraction]]:
    """Which share of a quantity each band prices; the shares add up to 1.

    In ``volume`` mode it is all of the first band that reaches the quantity. The upper bound belongs to its band.
    """
    bands = [*tier.bands, UNTOUCHED]
    if tier.mode == "volume" or not measured:
        return [(next(band for band in bands if band.up_to is None or measured <= band.up_to), Fraction(1))]
    shares, below = [], Fraction(0)
    for band in bands:
        reached = measured if band.up_to is None else min(measured, band.up_to)
        if reached > below:
            shares.append((band, (reached - below) / measured))
            below = reached
    return shares


def _measured(tier: Tier, scope: Sequence[LineKey], seconds: Mapping[LineKey, int]) -> Fraction:
    if tier.measure == "card_hours":
        return Fraction(sum(seconds[line] for line in scope), HOUR)
    # Spend is at list prices, whatever an earlier tier has left of them.
    return sum((line.price * seconds[line] for line in scope), Fraction(0)) / HOUR


def _in_band(band: Band, price: Fraction) -> Fraction:
    if band.price is not None:
        return band.price
    return price if band.discount is None else price * (1 - band.discount)
