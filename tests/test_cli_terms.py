"""`gpu-billing terms` from outside: files that hold together or nothing at all, and the list of what was said."""

from pathlib import Path

import pytest

from tests.commands import Shell

BOOK = """
currency: CNY
skus: {gpu.a: {name: {en: A}}}
plans: {on_demand: {unit_s: 1}}
prices:
  - {sku: gpu.a, plan: on_demand, per_card_hour: "3.60", from: "2026-01-01T00:00:00+08:00"}
"""


@pytest.fixture
def shell(database_url: str, tmp_path: Path) -> Shell:
    (tmp_path / "book.yaml").write_text(BOOK)
    (tmp_path / "a.yaml").write_text("account: acct-1\ndiscount: '0.10'\n")
    (tmp_path / "b.yaml").write_text("account: acct-2\nprice_book: other\n")
    (tmp_path / "float.yaml").write_text("account: acct-3\ndiscount: 0.10\n")
    return Shell(database_url, tmp_path)


def test_versions_are_recorded_once_and_listed(shell: Shell) -> None:
    said = shell.run("terms", "apply", "a.yaml", "book.yaml")
    assert (said.status, said.err) == (0, "")
    assert said.out == "contract acct-1: version 1 recorded\nprice book standard: version 2 recorded\n"
    again = shell.run("terms", "apply", "book.yaml", "a.yaml")
    assert again.out == "contract acct-1: version 1 known already\nprice book standard: version 2 known already\n"

    found = shell.run("terms", "list", "--json").json()["terms"]
    assert [(each["version"], each["kind"], each["name"], each["from"]) for each in found] == [
        (1, "contract", "acct-1", None), (2, "price_book", "standard", None)
    ]  # fmt: skip
    assert "price book" in shell.run("terms", "list").out


@pytest.mark.parametrize(
    ("files", "line"),
    [
        (("b.yaml",), "contract acct-2: price_book: there is no price book 'other'; apply it first, or along with it"),
        (("book.yaml", "b.yaml"),
         "contract acct-2: price_book: there is no price book 'other'; apply it first, or along with it"),
        (("book.yaml", "book.yaml"), "price book standard: is given twice from the same instant"),
        (("book.yaml", "float.yaml"),
         'float.yaml:2: discount: 0.10 is a float; write it as a string, "0.10" (R15)'),
        (("book.yaml", "missing.yaml"), "missing.yaml: cannot be read: No such file or directory"),
    ],
)  # fmt: skip
def test_one_bad_file_and_none_is_stored(shell: Shell, files: tuple[str, ...], line: str) -> None:
    said = shell.run("terms", "apply", *files)

    assert (said.status, said.out, said.err) == (2, "", f"gpu-billing: {line}\n")
    assert shell.run("terms", "list", "--json").json() == {"terms": []}
