"""How the columns of a job table become usage: a small YAML file, or a named preset with a few options on top.

A mapping says for each fact where it stands in a row, either `column: NAME` or `value: CONSTANT`. It is read once and
checked whole: a misspelt key, a float, an unknown zone or a naive origin is refused before the first row is looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Annotated, Literal, Self
from zoneinfo import ZoneInfo

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from core.errors import InputUnusable
from pricing.yaml_lines import Path, Problem, Trap, read_documents
from pricing.yaml_tree import Unreadable

MAPPING_BYTES_MAX = 65_536
BLANKS = ("", "Unknown", "None", "N/A", "NA", "NULL", "null", "NaN", "nan", "-")

Name = Annotated[str, Field(min_length=1, max_length=256)]


class MappingInvalid(InputUnusable):
    """A mapping cannot be used: what is wrong, and in which file or preset."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Cell(_Part):
    """Where a fact stands: in a column, or the same constant in every row.

    `or_column` is read where `column` is blank or not in the file.
    """

    column: Name | None = None
    or_column: Name | None = None
    value: Annotated[str, Field(min_length=1, max_length=256)] | int | None = None

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if (self.column is None) == (self.value is None):
            raise ValueError("give either column or value")
        if self.or_column is not None and self.column is None:
            raise ValueError("or_column needs column")
        return self


class TextCell(Cell):
    """A name.

    `prefix` goes before it (`{source}` in it stands for the mapping's source); `table` translates it; `default` stands
    in where the cell is blank or the table has no entry.
    """

    prefix: str = Field(default="", max_length=128)
    table: dict[str, Name] | None = None
    default: Name | None = None


class CardsCell(Cell):
    """A number of cards; with `tres` it is looked up in a Slurm list such as `cpu=64,gres/gpu:a100=8,node=1`."""

    tres: bool = False


class SkuCell(TextCell):
    """A SKU; with `tres` the type of card is looked up in a Slurm list and then in `table`, in lower case."""

    tres: bool = False

    @model_validator(mode="after")
    def _types_in_lower_case(self) -> Self:
        upper = [kind for kind in self.table or {} if self.tres and kind != kind.lower()]
        if upper:
            raise ValueError(f"card types are written in lower case, not {upper[0]!r}")
        return self


class Times(_Part):
    """How instants are written.

    `epoch` seconds, `iso` (with a `time_zone` for those that carry none), or seconds `relative` to an `origin`.
    """

    format: Literal["epoch", "iso", "relative"]
    time_zone: str | None = None
    origin: str | None = None

    @field_validator("time_zone")
    @classmethod
    def _known_zone(cls, name: str | None) -> str | None:
        if name is not None:
            known_zone(name)
        return name

    @model_validator(mode="after")
    def _fits_format(self) -> Self:
        if (self.format == "relative") != (self.origin is not None):
            raise ValueError("origin goes with format relative, and only with it")
        if self.time_zone is not None and self.format != "iso":
            raise ValueError("time_zone goes with format iso only")
        if self.origin is not None:
            aware_instant(self.origin)
        return self


class TableMapping(_Part):
    """One kind of job table. `source` names where it comes from and is part of the identity of every event (R25)."""

    source: Name
    delimiter: str = Field(default=",", min_length=1, max_length=1)
    quoted: bool = True
    rows: Literal["all", "slurm_jobs"] = "all"
    blank: list[str] = Field(default_factory=lambda: list(BLANKS))
    times: Times
    instance: TextCell
    start: Cell
    end: Cell
    cards: CardsCell
    sku: SkuCell
    account: TextCell
    project: TextCell | None = None
    plan: TextCell | None = None
    region: TextCell | None = None
    reason: TextCell | None = None

    @field_validator("delimiter")
    @classmethod
    def _separates(cls, delimiter: str) -> str:
        if delimiter in '"\r\n\0\ufeff' or delimiter.isalnum():
            raise ValueError("delimiter must be one sign such as , ; | or a tab")
        return delimiter


def known_zone(name: str) -> ZoneInfo:
    """The zone of that name; ValueError if there is none."""
    try:
        return ZoneInfo(name)
    except (OSError, LookupError, ValueError):
        raise ValueError(f"unknown time zone {name!r}") from None


def aware_instant(text: str) -> datetime:
    """An instant written with its offset; ValueError if it cannot be read or names none."""
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} is not an instant such as 2026-01-01T00:00:00+08:00") from None
    if instant.tzinfo is None:
        raise ValueError(f"{text!r} names no offset from UTC")
    return instant


# Card types as Slurm sites usually call them. A type that is not listed has no SKU until the mapping names one: a
# guess would be a wrong bill.
_SLURM_CARDS = {
    "a100": "gpu.a100-80g", "nvidia_a100": "gpu.a100-80g", "a100-sxm4-80gb": "gpu.a100-80g",
    "h100": "gpu.h100-80g", "nvidia_h100": "gpu.h100-80g", "nvidia_h100_80gb_hbm3": "gpu.h100-80g",
    "rtx4090": "gpu.rtx4090", "rtx_4090": "gpu.rtx4090", "geforce_rtx_4090": "gpu.rtx4090",
    "nvidia_geforce_rtx_4090": "gpu.rtx4090", "c500": "gpu.c500-64g", "metax_c500": "gpu.c500-64g",
}  # fmt: skip

PRESETS: dict[str, dict[str, object]] = {
    # sacct --allusers --duplicates --parsable2 --format=JobID,User,Account,Partition,Start,End,AllocTRES,ReqTRES,State
    # (naive local times: the cluster's zone has to be named; nothing in it is ever quoted)
    "slurm": {
        "source": "slurm",
        "delimiter": "|",
        "quoted": False,
        "rows": "slurm_jobs",
        "times": {"format": "iso"},
        "instance": {"column": "JobID", "prefix": "{source}-"},
        "start": {"column": "Start"},
        "end": {"column": "End"},
        "cards": {"column": "AllocTRES", "or_column": "ReqTRES", "tres": True},
        "sku": {"column": "AllocTRES", "or_column": "ReqTRES", "tres": True, "table": _SLURM_CARDS},
        "account": {"column": "Account"},
    },
    # The public trace of a production cluster, seconds since its start; the origin is a choice, as are account and SKU.
    "openb": {
        "source": "openb",
        "times": {"format": "relative", "origin": "2026-01-01T00:00:00+08:00"},
        "instance": {"column": "name"},
        "start": {"column": "scheduled_time"},
        "end": {"column": "deletion_time"},
        "cards": {"column": "num_gpu"},
        "sku": {"value": "gpu.a100-80g"},
        "account": {"value": "openb"},
    },
}

_NAMED_BY_OPTION = ("account", "sku", "project", "plan", "region")


def mapping_for(
    preset: str | None = None,
    document: Mapping[str, object] | None = None,
    options: Mapping[str, str] | None = None,
    where: str = "mapping",
) -> TableMapping:
    """The mapping of a preset, with the keys of a mapping file over it, with the options of a command over both.

    A file may name its own `preset`. Options: `source`, `time_zone`, `origin`, and `account`, `sku`, `project`, `plan`,
    `region`, each meant for the rows that name none. Raises MappingInvalid.
    """
    document = dict(document or {})
    named = document.pop("preset", None)
    merged = _preset(preset if preset is not None else named, where) | document
    _apply_options(merged, options or {}, where)
    try:
        mapping = TableMapping.model_validate(merged)
    except ValidationError as error:
        raise MappingInvalid(where, _first_problems(error)) from None
    if mapping.rows == "slurm_jobs" and mapping.times.format == "iso" and mapping.times.time_zone is None:
        raise MappingInvalid(where, "name the cluster's time zone (--time-zone): Slurm writes local times without one")
    return mapping


def _preset(name: object, where: str) -> dict[str, object]:
    if name is None:
        return {}
    if not isinstance(name, str) or name not in PRESETS:
        raise MappingInvalid(where, f"unknown preset {name!r}: there are {', '.join(sorted(PRESETS))}")
    return dict(PRESETS[name])


def _apply_options(merged: dict[str, object], options: Mapping[str, str], where: str) -> None:
    for name, text in options.items():
        if name == "source":
            merged[name] = text
        elif name in ("time_zone", "origin"):
            merged["times"] = _with(merged.get("times"), name, text)
        elif name in _NAMED_BY_OPTION:
            cell = merged.get(name)
            reads_column = isinstance(cell, Mapping) and "column" in cell
            merged[name] = _with(cell, "default", text) if reads_column else {"value": text}
        else:
            raise MappingInvalid(where, f"unknown option {name!r}")


def _with(part: object, key: str, text: str) -> dict[str, object]:
    return {**(part if isinstance(part, Mapping) else {}), key: text}


def _first_problems(error: ValidationError, shown: int = 3) -> str:
    problems = error.errors(include_url=False, include_input=False, include_context=False)
    texts = [f"{'.'.join(map(str, p['loc'])) or 'mapping'}: {p['msg'].removeprefix('Value error, ')}" for p in problems]
    more = f" (and {len(texts) - shown} more)" if len(texts) > shown else ""
    return "; ".join(texts[:shown]) + more


def mapping_document(content: bytes, file_name: str) -> dict[str, object]:
    """The keys and values of a mapping file, unchecked; MappingInvalid with the line if it is not plain YAML."""
    if len(content) > MAPPING_BYTES_MAX:
        raise MappingInvalid(file_name, f"longer than {MAPPING_BYTES_MAX} bytes: not a mapping file")
    try:
        documents = list(read_documents(content.decode("utf-8-sig")))
    except UnicodeDecodeError as error:
        raise MappingInvalid(file_name, f"not UTF-8 text (byte {error.start + 1})") from None
    except Unreadable as error:
        raise MappingInvalid(file_name, f"line {error.line}: {error}") from None
    if len(documents) != 1 or not isinstance(documents[0].value, dict):
        raise MappingInvalid(file_name, "not one list of names and columns")
    document = documents[0]
    problems = [*document.problems, *_traps(document.value, ())]
    if problems:
        line = problems[0].line or document.line_of(problems[0].path)
        raise MappingInvalid(file_name, f"line {line}: {'.'.join(map(str, problems[0].path))}: {problems[0].message}")
    return {str(key): value for key, value in documents[0].value.items()}


def _traps(value: object, path: Path) -> Iterator[Problem]:
    """Values without quotes that would be read as something else than they look."""
    if isinstance(value, Trap):
        yield Problem(path, f"{value.text} reads as {value.reads_as}: put it in quotes")
    elif isinstance(value, dict):
        for key, part in value.items():
            yield from _traps(part, (*path, key))
    elif isinstance(value, list):
        for place, part in enumerate(value):
            yield from _traps(part, (*path, place))
