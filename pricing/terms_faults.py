"""Faults of price books and contracts as lines that a person can act on: ``name:LINE: path: message (rule)``."""

import re
from collections.abc import Iterable
from typing import Any

from pricing.crosscheck import did_you_mean
from pricing.scalars import short, shown
from pricing.wire import SECTIONS, Wire, keys_of
from pricing.yaml_lines import Document, Path, Problem

MAX_PROBLEMS = 100
"""So many faults of one document are told; whoever has more has another kind of file."""

_RULE_WITHIN = {"tax": "R18", "pack": "R12", "renew": "R12", "falls_back_to": "R12", "exclusions": "R6"}
_RULE_UNDER = {
    "from": "R1",
    "time_zone": "R2",
    "currency": "R16",
    "skus": "R11",
    "prices": "R11",
    "plans": "R10",
    "xids": "R7",
    "heartbeat_timeout_s": "R9",
    "tiers": "R13",
    "caps": "R14",
    "discount": "R15",
    "long_term": "R21",
    "credits": "R19",
}
_BARE = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,59}")
_UNKNOWN = "unknown key"


def problem_of(fault: Any, model: type[Wire]) -> Problem:
    """One of pydantic's error details, met while ``model`` was validated, in this project's words."""
    place = tuple(part for part in fault["loc"] if part != "[key]")
    kind, value = fault["type"], fault["input"]
    if kind == "extra_forbidden":
        return Problem(place, f"{_UNKNOWN}{did_you_mean(place[-1], keys_of(_model_at(place, model)))}")
    if kind == "missing":
        return Problem(place, "is missing")
    if kind in ("model_type", "dict_type", "list_type"):
        return Problem(place, f"must be a {'list' if kind == 'list_type' else 'mapping'}, not {shown(value)}")
    if kind == "literal_error":
        return Problem(place, f"must be {fault['ctx']['expected']}, not {shown(value)}")
    return Problem(place, "is empty" if kind == "too_short" else str(fault["msg"]))


def told(name: str, document: Document, problems: Iterable[Problem]) -> list[str]:
    """Problems as texts in the order of their lines, each once though an alias repeats it."""
    seen: dict[tuple[int, str], str] = {}
    for problem in problems:
        line = problem.line or document.line_of(problem.path)
        seen.setdefault((line, problem.message), f"{name}:{line}: {_text(problem)}")
    lines = [text for _, text in sorted(seen.items(), key=lambda entry: entry[0][0])]
    more = [f"{name}:{document.line}: more problems follow"] if len(lines) > MAX_PROBLEMS else []
    return lines[:MAX_PROBLEMS] + more


def _model_at(place: Path, top: type[Wire]) -> type[Wire]:
    """The model in which the last part of a place is a key."""
    around = (part for part in place[-2:-4:-1] if isinstance(part, str))
    return next((SECTIONS[part] for part in around if part in SECTIONS), top)


def _text(problem: Problem) -> str:
    where = ""
    for part in problem.path:
        if isinstance(part, int):
            where += f"[{part}]"
        elif _BARE.fullmatch(part):
            where += f".{part}" if where else part
        else:
            where += f'["{short(part)}"]'
    rule = "" if problem.message.startswith(_UNKNOWN) else _rule(problem.path)
    return f"{where}: {problem.message}{rule}" if where else f"{problem.message}{rule}"


def _rule(path: Path) -> str:
    inner = (_RULE_WITHIN[part] for part in reversed(path) if isinstance(part, str) and part in _RULE_WITHIN)
    rule = next(inner, _RULE_UNDER.get(str(path[0])) if path else None)
    return f" ({rule})" if rule else ""
