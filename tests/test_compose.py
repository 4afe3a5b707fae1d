"""docker-compose.yml where no engine runs it: sound by the specification, and in step with the project around it."""

import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import yaml
from compose_spec import PyCompose

from core.broker import MESSAGE_BYTES_MAX
from core.config import Settings
from metering.produce import SETTINGS

ROOT = Path(__file__).parent.parent
GIVEN = {"GPU_BILLING_DATABASE_PASSWORD": "d", "POSTGRES_PASSWORD": "p", "GPU_BILLING_PEPPER": "x" * 32}
ENDING = {"topic", "migrate"}
OWN = {"migrate", "consumer", "api", "close"}
_VARIABLE = re.compile(r"\$\{(\w+)(?::([-?])([^}]*))?\}")


def interpolated(text: str, given: dict[str, str]) -> str:
    """As `docker compose` puts variables in; a needed one that is not given is a KeyError."""

    def value(found: re.Match[str]) -> str:
        name, how, default = found.groups()
        return given.get(name) or default if how == "-" else given[name]

    return _VARIABLE.sub(value, text).replace("$$", "$")


@pytest.fixture(scope="module")
def text() -> str:
    return (ROOT / "docker-compose.yml").read_text()


@pytest.fixture(scope="module")
def compose(text: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(interpolated(text, GIVEN))
    return found


@pytest.fixture(scope="module")
def services(compose: dict[str, Any]) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = compose["services"]
    return found


def test_it_is_what_the_specification_allows(compose: dict[str, Any]) -> None:
    read = PyCompose.from_yaml(yaml.safe_dump(compose))
    read.validate()
    assert set(read.service_names()) == {"postgres", "kafka", "topic", "migrate", "consumer", "api", "close"}


def test_the_specification_is_looked_at() -> None:
    with pytest.raises(ValueError, match="healthchek"):
        PyCompose.from_yaml("services: {a: {image: x, healthchek: {}}}")


def test_nobody_is_root_or_can_become_it(services: dict[str, dict[str, Any]]) -> None:
    for name, service in services.items():
        user, group = service["user"].split(":")
        assert int(user) > 0, name
        assert int(group) > 0, name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert "privileged" not in service, name


def test_what_runs_on_comes_back_and_is_watched(services: dict[str, dict[str, Any]]) -> None:
    for name, service in services.items():
        if name in ENDING:
            assert service["restart"] == "on-failure", name
        else:
            assert service["restart"] == "unless-stopped", name
            assert {"test", "interval", "timeout", "retries", "start_period"} <= set(service["healthcheck"]), name


def test_what_ends_is_waited_for(services: dict[str, dict[str, Any]]) -> None:
    for name in OWN - {"migrate"}:
        assert services[name]["depends_on"]["migrate"] == {"condition": "service_completed_successfully"}
    assert services["consumer"]["depends_on"]["topic"] == {"condition": "service_completed_successfully"}
    for service in services.values():
        for other, how in service.get("depends_on", {}).items():
            wanted = "service_completed_successfully" if other in ENDING else "service_healthy"
            assert how == {"condition": wanted}
            assert other in ENDING or "healthcheck" in services[other]


def test_roots_are_read_only_but_for_kafkas(services: dict[str, dict[str, Any]]) -> None:
    writable = {name for name, service in services.items() if not service.get("read_only")}
    assert writable == {"kafka", "topic"}


def test_what_has_to_last_is_in_a_named_volume(compose: dict[str, Any], services: dict[str, dict[str, Any]]) -> None:
    mounted = [each.split(":") for service in services.values() for each in service.get("volumes", [])]
    named = {source for source, *_ in mounted if not source.startswith(".")}
    assert named == set(compose["volumes"]) == {"books", "log", "invoices"}
    for source, *_ in mounted:
        assert source in named or (ROOT / source).is_file()


def test_ports_are_open_to_this_machine_only(services: dict[str, dict[str, Any]]) -> None:
    for service in services.values():
        for port in service.get("ports", []):
            assert port.startswith("127.0.0.1:")


def test_secrets_have_to_be_given_and_are_not_in_the_file(text: str) -> None:
    for name in GIVEN:
        with pytest.raises(KeyError, match=name):
            interpolated(text, {other: value for other, value in GIVEN.items() if other != name})
    assert re.findall(r"(?m)^\s*\w*(?:PASSWORD|PEPPER): (?!\$\{\w+:\?\})", text) == []


def test_the_example_of_settings_is_whole(text: str) -> None:
    lines = (ROOT / ".env.example").read_text().splitlines()
    told = dict(line.removeprefix("#").split("=", 1) for line in lines if re.match(r"#?[A-Z_]+=", line))
    found = {name: (how, default) for name, how, default in _VARIABLE.findall(text)}
    assert set(told) == set(found)
    assert {name for name, value in told.items() if not value} == set(GIVEN)
    for name, value in told.items():
        assert name in GIVEN or found[name] == ("-", value)
    assert ".env" in (ROOT / ".gitignore").read_text().splitlines()


def test_settings_are_settings_of_ours(services: dict[str, dict[str, Any]]) -> None:
    ours = {f"GPU_BILLING_{name.upper()}" for name in Settings.model_fields} | {"PGPASSWORD"}
    for name in OWN:
        environment = {key for key in services[name]["environment"] if not key.startswith("GPU_BILLING_CLOSE_")}
        assert environment <= ours, name


@pytest.mark.parametrize("name", ["migrate", "consumer", "api"])
def test_commands_are_commands_of_ours(services: dict[str, dict[str, Any]], name: str) -> None:
    """Each with `--help` behind it, which is answered only where every word before it is known."""
    words = [str(word) for word in services[name]["command"]]
    command = Path(sys.executable).parent / "gpu-billing"
    done = subprocess.run([command, *words, "--help"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_versions_are_those_of_the_rest_of_the_project(services: dict[str, dict[str, Any]]) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    pom = (ROOT / "broker" / "pom.xml").read_text()
    kafka = re.search(r"kafka_2\.13</artifactId>\s*<version>([\d.]+)<", pom)
    assert kafka is not None
    for name in OWN:
        assert services[name]["image"] == f"gpu-billing:{project['version']}"
    assert services["kafka"]["image"] == services["topic"]["image"] == f"apache/kafka:{kafka.group(1)}"
    assert re.fullmatch(r"postgres:18\.\d+", services["postgres"]["image"])


def test_an_event_of_the_largest_size_passes_everywhere(services: dict[str, dict[str, Any]]) -> None:
    assert services["kafka"]["environment"]["KAFKA_MESSAGE_MAX_BYTES"] == MESSAGE_BYTES_MAX
    assert f"--config=max.message.bytes={MESSAGE_BYTES_MAX}" in services["topic"]["command"]
    assert SETTINGS["max_request_size"] < MESSAGE_BYTES_MAX


def test_the_image_is_made_of_what_is_there_and_takes_hashes_only() -> None:
    lines = (ROOT / "Dockerfile").read_text().replace("\\\n", " ").splitlines()
    copied = [line.split()[1:] for line in lines if line.startswith("COPY") and "--from" not in line]
    sources = [word for words in copied for word in words[:-1] if not word.startswith("--")]
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    hatch = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]
    assert set(sources) == allowed
    assert set(hatch["build"]["targets"]["wheel"]["packages"]) <= allowed
    assert all((ROOT / source).exists() for source in sources)
    installs = [line for line in lines if "pip install" in line]
    assert all("--require-hashes" in line or "--no-index" in line for line in installs)
    assert [line for line in lines if line.startswith("USER")] == ["USER 10001:10001"]
    assert all("${PYTHON_IMAGE}" in line for line in lines if line.startswith("FROM"))


@pytest.fixture
def closing(tmp_path: Path) -> dict[str, str]:
    """An environment in which `gpu-billing` is a script that notes its words and ends with the status in a file."""
    program = tmp_path / "gpu-billing"
    program.write_text(f'#!/bin/sh\necho "$@" >>{tmp_path}/said\nexit "$(cat {tmp_path}/status)"\n')
    program.chmod(0o755)
    return {
        "PATH": f"{tmp_path}:{os.environ['PATH']}", "GPU_BILLING_CLOSE_EVERY_S": "30",
        "GPU_BILLING_CLOSE_DAY": "1", "GPU_BILLING_CLOSE_STAMP": str(tmp_path / "stamp"),
    }  # fmt: skip


@pytest.mark.parametrize(("status", "is_done"), [("0", True), ("1", True), ("2", False)])
def test_closing_goes_round_and_says_whether_it_could(
    closing: dict[str, str], tmp_path: Path, status: str, is_done: bool
) -> None:
    (tmp_path / "status").write_text(status)
    with subprocess.Popen([ROOT / "deploy" / "close-monthly.sh"], env=closing) as process:
        wait_for(tmp_path / ("stamp" if is_done else "said"))
        time.sleep(0.2)
        process.terminate()
        assert process.wait(10) == 0
    assert (tmp_path / "said").read_text() == f"close {last_month()}\n"
    assert (tmp_path / "stamp").exists() == is_done


def test_closing_waits_for_its_day(closing: dict[str, str], tmp_path: Path) -> None:
    closing["GPU_BILLING_CLOSE_DAY"] = "32"
    with subprocess.Popen([ROOT / "deploy" / "close-monthly.sh"], env=closing) as process:
        wait_for(tmp_path / "stamp")
        process.terminate()
        assert process.wait(10) == 0
    assert not (tmp_path / "said").exists()


def test_scripts_are_plain_shell() -> None:
    shell = shutil.which("dash") or "sh"
    for script in (ROOT / "deploy").glob("*.sh"):
        subprocess.run([shell, "-n", script], check=True)
        assert os.access(script, os.X_OK)


def wait_for(file: Path) -> None:
    deadline = time.monotonic() + 20
    while not file.exists():
        assert time.monotonic() < deadline, f"{file} never came"
        time.sleep(0.02)


def last_month() -> str:
    today = datetime.now(ZoneInfo("Asia/Shanghai"))
    return f"{today.year - (today.month == 1)}-{(today.month - 2) % 12 + 1:02}"
