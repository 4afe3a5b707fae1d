"""Settings come from the environment, then from a file, and a slip in either is one line."""

from pathlib import Path

import pytest

from core.config import SettingsInvalid, load

NAMES = ("DATABASE_URL", "DATA", "KAFKA", "SETTINGS")


@pytest.fixture(autouse=True)
def _clean_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NAMES:
        monkeypatch.delenv(f"GPU_BILLING_{name}", raising=False)
    monkeypatch.chdir(tmp_path)


def test_without_settings_the_data_is_in_the_users_folder() -> None:
    settings = load()

    assert settings.database_url is None
    assert settings.kafka is None
    assert settings.data.name == "gpu-billing"
    assert settings.data.is_absolute()


def test_environment_wins_over_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gpu-billing.toml").write_text('kafka = "file:9092"\ndata = "books"\n')
    monkeypatch.setenv("GPU_BILLING_KAFKA", "environment:9092")

    settings = load()

    assert settings.kafka == "environment:9092"
    assert settings.data == tmp_path / "books"


def test_a_file_elsewhere_can_be_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "other.toml").write_text('database_url = "postgres://me@db/books"\n')
    monkeypatch.setenv("GPU_BILLING_SETTINGS", "other.toml")

    assert load().database_url == "postgresql://me@db/books"


def test_an_empty_variable_is_no_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPU_BILLING_DATABASE_URL", "")

    assert load().database_url is None


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("databse_url = 'x'", "gpu-billing.toml: unknown setting 'databse_url', did you mean 'database_url'?"),
        ("colour = 'red'", "gpu-billing.toml: unknown setting 'colour'; known are database_url, data, kafka, pepper"),
        ("kafka = 9092", "gpu-billing.toml: kafka: Input should be a valid string"),
        (
            "database_url = 'sqlite:///x'",
            "gpu-billing.toml: database_url: must be a PostgreSQL address, postgresql://user@host/name",
        ),
        ("kafka = ", "gpu-billing.toml: Invalid value (at end of document)"),
    ],
)
def test_a_slip_in_the_file_is_one_line(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "gpu-billing.toml").write_text(content)

    with pytest.raises(SettingsInvalid) as caught:
        load()

    assert str(caught.value) == message


def test_a_slip_in_the_environment_names_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPU_BILLING_DATABASE_URL", "mysql://db/books")

    with pytest.raises(SettingsInvalid, match=r"^GPU_BILLING_DATABASE_URL: must be a PostgreSQL address"):
        load()


def test_a_named_file_must_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPU_BILLING_SETTINGS", "nowhere.toml")

    with pytest.raises(SettingsInvalid, match=r"^nowhere.toml: No such file or directory$"):
        load()
