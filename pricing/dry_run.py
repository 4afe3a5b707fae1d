"""Terms of a dry run: one price book (all its versions) and at most one contract, from files."""

from pathlib import Path

from core.errors import InputUnusable, TermsInvalid
from pricing.book import PriceBook
from pricing.contract import Contract
from pricing.crosscheck import check_contract
from pricing.load import read_terms
from pricing.terms import Terms


def read_dry_run_terms(price_book: Path, contract: Path | None) -> Terms:
    """The terms in the files; raises ``TermsInvalid`` or ``InputUnusable`` where they cannot be meant."""
    books = [each for each in read_terms(price_book) if isinstance(each, PriceBook)]
    if not books:
        raise InputUnusable(str(price_book), "no price book in it")
    if len({book.id for book in books}) > 1:
        raise InputUnusable(str(price_book), "several price books; a dry run takes the versions of one")
    contracts = [each for each in read_terms(contract) if isinstance(each, Contract)] if contract else []
    if contract and not contracts:
        raise InputUnusable(str(contract), "no contract in it")
    problems = [f"{contract}: {problem}" for each in contracts for problem in check_contract(each, books[-1])]
    if problems:
        raise TermsInvalid(problems)
    return Terms.of(*books, *contracts, default_book=books[0].id)
