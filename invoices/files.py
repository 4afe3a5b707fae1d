"""Invoice files: the document as JSON and its lines as CSV, written whole or not at all."""

import csv
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

COLUMNS = (
    "number", "account", "month", "currency", "row", "corrects_number", "corrects_line", "corrects_month", "kind",
    "sku",
    "plan", "region", "price", "unit", "quantity", "padding", "list", "discount", "charge", "credits", "tax_rate",
    "tax_included",
)  # fmt: skip


def write_invoice(folder: Path, document: Mapping[str, Any]) -> list[Path]:
    """Write one invoice's files into a folder of its month; the paths, JSON first. Writing again changes nothing."""
    month = folder / document["month"]
    month.mkdir(parents=True, exist_ok=True)
    text = json.dumps(document, ensure_ascii=False, indent=1, sort_keys=True) + "\n"
    return [
        _written(month / f"{document['number']}.json", text.encode()),
        _written(month / f"{document['number']}.csv", csv_text(document).encode()),
    ]


def csv_text(document: Mapping[str, Any]) -> str:
    """The lines and corrections of an invoice; ``list`` and ``charge`` sum to its totals."""
    out = io.StringIO(newline="")
    writer = csv.DictWriter(out, COLUMNS, restval="", lineterminator="\r\n")
    writer.writeheader()
    shared = {name: document[name] for name in ("number", "account", "month", "currency")}
    for place, line in enumerate(document["lines"], start=1):
        writer.writerow({**shared, "row": f"line {place}", **_guarded(_line_cells(line))})
    for place, line in enumerate(document["corrections"], start=1):
        writer.writerow({**shared, "row": f"correction {place}", **_guarded(_correction_cells(line))})
    return out.getvalue()


def _line_cells(line: Mapping[str, Any]) -> dict[str, Any]:
    plain = {name: line[name] for name in ("kind", "sku", "plan", "region", "price", "unit", "quantity", "padding")}
    discounts = "; ".join(f"{name} {amount}" for name, amount in line["discounts"].items())
    credits = "; ".join(f"{name} {amount}" for name, amount in line["credits"].items())
    return {
        **plain, "list": line["list"], "discount": discounts, "charge": line["charge"], "credits": credits,
        "tax_rate": line["tax"]["rate"], "tax_included": "yes" if line["tax"]["included"] else "no",
    }  # fmt: skip


def _correction_cells(line: Mapping[str, Any]) -> dict[str, Any]:
    plain = {name: line[name] for name in ("kind", "sku", "plan", "region", "price")}
    return {
        **plain, "list": line["list"], "charge": line["amount"], "corrects_number": line["corrects"]["number"] or "",
        "corrects_line": line["corrects"]["line"] or "", "corrects_month": line["month"],
    }  # fmt: skip


def _guarded(cells: Mapping[str, Any]) -> dict[str, Any]:
    """A name that a spreadsheet would run as a formula is shown as text; amounts are left as they are."""
    names = ("sku", "plan", "region")
    return {
        name: f"'{value}" if name in names and str(value)[:1] in ("=", "+", "-", "@", "\t", "\r") else value
        for name, value in cells.items()
    }


def _written(path: Path, content: bytes) -> Path:
    fresh = path.with_name(path.name + ".new")
    fresh.write_bytes(content)
    return fresh.replace(path)
