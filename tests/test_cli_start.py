"""Commands start fast: what one of them needs is loaded when it runs."""

import subprocess
import sys

HEAVY = {"alembic", "msgspec", "psycopg", "pydantic", "rich", "sqlalchemy", "yaml"}


def test_the_command_line_loads_nothing_heavy() -> None:
    program = f"import sys, cli.main; print(sorted({HEAVY!r} & set(sys.modules)))"
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert said.stdout == "[]\n"
