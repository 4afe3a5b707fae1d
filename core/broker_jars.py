"""What an embedded broker runs on: Java, and the jars of Apache Kafka that Maven fetches once into the user's cache."""

import os
import re
import shutil
import subprocess
import tempfile
from hashlib import sha256
from pathlib import Path

from filelock import FileLock
from platformdirs import user_cache_path

from core.errors import BillingError

FOLDER = Path(__file__).parent.parent / "broker"
JAVA_VERSION = 17
FETCH_SECONDS = 900


class BrokerUnavailable(BillingError):
    """This machine has nothing to run an embedded broker on; the text says how to get it."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"no Kafka: {reason}. Install Java {JAVA_VERSION} or newer and Maven, or set GPU_BILLING_KAFKA to the"
            " bootstrap servers of a broker"
        )


def java() -> str:
    """The path of a Java that is new enough; raises ``BrokerUnavailable``."""
    home = os.environ.get("JAVA_HOME")
    program = shutil.which("java", path=f"{home}/bin" if home else None)
    if program is None:
        raise BrokerUnavailable("there is no java")
    said = subprocess.run([program, "-version"], capture_output=True, text=True, check=False).stderr  # noqa: S603  # our own words
    found = re.search(r'version "(\d+)', said)
    if found is None or int(found.group(1)) < JAVA_VERSION:
        raise BrokerUnavailable(f"{program} is of version {found.group(1) if found else 'unknown'}")
    return program


def jars() -> Path:
    """The folder of the jars that `broker/pom.xml` names, whole or not there; raises ``BrokerUnavailable``."""
    pom = FOLDER / "pom.xml"
    if not pom.exists():
        raise BrokerUnavailable(f"{pom} is not there, an embedded broker needs the project's folder")
    cache = user_cache_path("gpu-billing", appauthor=False)
    folder = cache / f"kafka-{sha256(pom.read_bytes()).hexdigest()[:12]}"
    if folder.exists():
        return folder
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with FileLock(cache / "kafka.lock"):
            if not folder.exists():
                _fetch(pom, folder)
    except OSError as error:
        raise BrokerUnavailable(f"{cache}: {error.strerror or error}") from error
    return folder


def _fetch(pom: Path, folder: Path) -> None:
    """Copies the jars under another name first: what has the right name is whole."""
    maven = shutil.which("mvn")
    if maven is None:
        raise BrokerUnavailable("there is no mvn to fetch Apache Kafka with")
    with tempfile.TemporaryDirectory(prefix="kafka.new-", dir=folder.parent) as work:
        fresh = Path(work) / "jars"
        command = [
            maven, "--batch-mode", "--quiet", "--file", str(pom), "dependency:copy-dependencies",
            "-DincludeScope=runtime", f"-DoutputDirectory={fresh}",
        ]  # fmt: skip
        try:
            done = subprocess.run(  # noqa: S603  # our own words
                command, capture_output=True, text=True, check=False, timeout=FETCH_SECONDS, stdin=subprocess.DEVNULL
            )
        except subprocess.TimeoutExpired as error:
            raise BrokerUnavailable(f"Maven did not end in {FETCH_SECONDS} s") from error
        if done.returncode or not fresh.exists():
            first = next((line for line in done.stdout.splitlines() if line.startswith("[ERROR]")), "Maven failed")
            raise BrokerUnavailable(f"Maven: {first.removeprefix('[ERROR]').strip()}")
        fresh.rename(folder)
