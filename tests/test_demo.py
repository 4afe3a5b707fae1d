"""The demo, with and without Kafka: one table, cent for cent."""

import os
import subprocess
from pathlib import Path

import pytest

from core import embedded
from tests.commands import COMMAND

WORDS = ("demo", "--instances", "40", "--seed", "4")


def run(data: Path, *words: str) -> list[str]:
    """What the demo says; the server that it leaves running is stopped."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith("GPU_BILLING_")}
    try:
        done = subprocess.run(
            [COMMAND, *WORDS, *words], env={**kept, "GPU_BILLING_DATA": str(data), "COLUMNS": "140"},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    finally:
        embedded.stop(data / "demo")
    assert done.returncode == 0, done.stderr
    return [line for line in done.stdout.splitlines() if str(data) not in line]


@pytest.mark.usefixtures("broker")  # skips where there is no Kafka; the demo starts its own
def test_the_same_month_through_kafka_is_the_same_to_the_cent(data: Path) -> None:
    plain = run(data / "plain")
    streamed = run(data / "streamed", "--kafka")

    assert any("INV-2026-000001" in line for line in plain)
    assert [line for line in streamed if "Kafka" not in line] == plain
    assert sum("Kafka" in line for line in streamed) == 2
