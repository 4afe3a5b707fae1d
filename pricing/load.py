"""Price books and contracts from YAML or JSON files, refused as a whole when anything in them is wrong.

A file may hold several documents, told apart by their keys. Every problem is collected, with the line of the key at
fault. What a contract must be to its price book is ``pricing.crosscheck.check_contract``.
"""

from itertools import islice
from pathlib import Path

from pydantic import ValidationError

from core.errors import InputUnusable, TermsInvalid
from pricing.book import PriceBook
from pricing.contract import Contract
from pricing.crosscheck import book_problems, contract_problems
from pricing.from_wire import book_of, contract_of
from pricing.scalars import shown
from pricing.terms_faults import MAX_PROBLEMS, problem_of, told
from pricing.terms_text import MAX_BYTES, terms_text
from pricing.wire import BookWire, ContractWire, keys_of
from pricing.yaml_lines import Document, Problem, read_documents
from pricing.yaml_tree import Unreadable

_BOOK_KEYS = {"prices", "plans", "skus"}


def read_terms(path: Path) -> list[PriceBook | Contract]:
    """The price books and contracts of a file; raises ``InputUnusable`` or ``TermsInvalid``."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise InputUnusable(str(path), f"cannot be read: {reason}") from None
    return parse_terms(data, str(path))


def parse_terms(text: bytes, name: str) -> list[PriceBook | Contract]:
    """The price books and contracts in the bytes of a file that messages call ``name``.

    Raises ``InputUnusable`` where the file as a whole is no text, ``TermsInvalid`` with every problem found otherwise.
    """
    terms: list[PriceBook | Contract] = []
    problems: list[str] = []
    try:
        for document in read_documents(terms_text(text, name)):
            found, wrong = _read(document)
            if found is not None and any(_identity(found) == _identity(other) for other in terms):
                wrong = [Problem((), f"{shown(_identity(found)[1])} is given twice from the same instant")]
            problems += told(name, document, wrong)
            terms += [] if found is None else [found]
    except Unreadable as error:
        problems.append(f"{name}:{error.line}: {error.message}")
    if problems:
        raise TermsInvalid(problems)
    if not terms:
        raise InputUnusable(name, "holds no price book and no contract")
    return terms


def _read(document: Document) -> tuple[PriceBook | Contract | None, list[Problem]]:
    """The value of one document, or None and what is wrong with it."""
    raw = document.value
    if not isinstance(raw, dict):
        return None, [*document.problems, Problem((), f"must be a mapping, not {shown(raw)}")]
    model = _model_of(raw)
    if isinstance(model, str):
        return None, [*document.problems, Problem((), model)]
    wire: BookWire | ContractWire | None = None
    faults: list[Problem] = []
    try:
        wire = model.model_validate(raw)
    except ValidationError as error:
        faults = [problem_of(fault, model) for fault in error.errors(include_url=False)[: MAX_PROBLEMS + 1]]
    book = wire if isinstance(wire, BookWire) else None
    checks = book_problems(raw, book) if model is BookWire else contract_problems(raw)
    refused = {problem.path for problem in document.problems}
    faults += islice(checks, MAX_PROBLEMS + 1)
    problems = [*document.problems, *(fault for fault in faults if fault.path not in refused)]
    if problems or wire is None:
        return None, problems
    return (book_of(wire) if isinstance(wire, BookWire) else contract_of(wire)), []


def _model_of(raw: dict[str, object]) -> type[BookWire] | type[ContractWire] | str:
    """Which of the two a mapping is by its keys, or why it is neither."""
    is_book = bool(raw.keys() & _BOOK_KEYS)
    if is_book and "account" in raw:
        return "has keys of a price book (prices, plans, skus) and of a contract (account)"
    if is_book:
        return BookWire
    if raw.keys() & (set(keys_of(ContractWire)) - set(keys_of(BookWire))):
        return ContractWire
    return "is neither a price book (prices, plans, skus) nor a contract (account)"


def _identity(terms: PriceBook | Contract) -> tuple[str, str, int]:
    if isinstance(terms, PriceBook):
        return "price book", terms.id, terms.since
    return "contract", terms.account, terms.since
