"""Running `gpu-billing` as a person does: a process of its own, on a database of the test's own."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

COMMAND = Path(sys.executable).parent / "gpu-billing"


@dataclass(frozen=True)
class Said:
    """A command's status and what it wrote."""

    status: int
    out: str
    err: str

    def json(self) -> Any:
        return json.loads(self.out)


@dataclass(frozen=True)
class Shell:
    """A place where commands find the test's database."""

    url: str
    folder: Path

    def environment(self) -> dict[str, str]:
        kept = {name: text for name, text in os.environ.items() if not name.startswith("GPU_BILLING_")}
        data = str(self.folder / "data")
        return {**kept, "GPU_BILLING_DATABASE_URL": self.url, "GPU_BILLING_DATA": data, "LC_ALL": "C.UTF-8"}

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        """Starts a command and leaves it running."""
        return subprocess.Popen(
            [COMMAND, *words], cwd=self.folder, env=self.environment(), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def run(self, *words: str, given: bytes = b"") -> Said:
        """Runs a command to its end."""
        done = subprocess.run(
            [COMMAND, *words], cwd=self.folder, env=self.environment(), input=given, capture_output=True, timeout=300,
            check=False,
        )  # fmt: skip
        return Said(done.returncode, done.stdout.decode(), done.stderr.decode())

    def write(self, name: str, lines: Sequence[bytes]) -> str:
        """A file of lines in the folder; returns its name."""
        (self.folder / name).write_bytes(b"".join(line + b"\n" for line in lines))
        return name
