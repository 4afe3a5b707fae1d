"""Settings: read once at the rim from the environment or a settings file, and passed inwards as one value.

The environment wins over the file. The file is TOML, named by GPU_BILLING_SETTINGS or `gpu-billing.toml` in the
working folder, with the same names in lower case: `database_url`, `data`, `kafka`, `pepper`.
"""

import os
import tomllib
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from platformdirs import user_data_path
from pydantic import Field, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from core.errors import BillingError

PREFIX = "GPU_BILLING_"
DEFAULT_FILE = "gpu-billing.toml"
SCHEMES = ("postgresql://", "postgres://", "postgresql+psycopg://")


class SettingsInvalid(BillingError):
    """The settings file or an environment variable holds something that cannot be meant."""

    def __init__(self, where: str, reason: str) -> None:
        super().__init__(f"{where}: {reason}")


class Settings(BaseSettings):
    """Where the service finds its database, its files and its broker."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="forbid", env_ignore_empty=True)

    database_url: str | None = None
    data: Path = Field(default_factory=lambda: user_data_path("gpu-billing", appauthor=False), validate_default=True)
    kafka: str | None = None
    pepper: SecretStr | None = None

    @field_validator("database_url")
    @classmethod
    def _is_postgresql(cls, url: str | None) -> str | None:
        """The address as libpq reads it; other databases are refused."""
        if url is None:
            return None
        scheme = next((each for each in SCHEMES if url.startswith(each)), None)
        if scheme is None:
            raise ValueError("must be a PostgreSQL address, postgresql://user@host/name")
        return "postgresql://" + url.removeprefix(scheme)

    @field_validator("pepper")
    @classmethod
    def _is_long(cls, pepper: SecretStr | None) -> SecretStr | None:
        if pepper is not None and len(pepper.get_secret_value()) < 32:
            raise ValueError("must be 32 characters or more")
        return pepper

    @field_validator("data")
    @classmethod
    def _is_absolute(cls, folder: Path) -> Path:
        try:
            return folder.expanduser().resolve()
        except RuntimeError as error:
            raise ValueError(str(error)) from error

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003  # the five are pydantic's to name
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """The environment before the file's values, and nothing else."""
        return env_settings, init_settings


def load() -> Settings:
    """The settings of this process; raises :class:`SettingsInvalid`."""
    file = _settings_file()
    values = _read(file) if file else {}
    try:
        return Settings(**values)
    except ValidationError as error:
        first = error.errors()[0]
        key = str(first["loc"][0])
        variable = PREFIX + key.upper()
        where = variable if os.environ.get(variable) else f"{file}: {key}"
        raise SettingsInvalid(where, first["msg"].removeprefix("Value error, ")) from error


def _settings_file() -> Path | None:
    named = os.environ.get(PREFIX + "SETTINGS")
    if named:
        return Path(named)
    default = Path(DEFAULT_FILE)
    return default if default.exists() else None


def _read(file: Path) -> dict[str, Any]:
    try:
        values = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsInvalid(str(file), error.strerror or "cannot be read") from error
    except ValueError as error:  # not TOML, or not UTF-8
        raise SettingsInvalid(str(file), " ".join(str(error).split())) from error
    for key in values:
        if key not in Settings.model_fields:
            raise SettingsInvalid(str(file), f"unknown setting {key!r}{_meant(key)}")
    return values


def _meant(key: str) -> str:
    near = get_close_matches(key.lower(), Settings.model_fields, n=1)
    return f", did you mean {near[0]!r}?" if near else f"; known are {', '.join(Settings.model_fields)}"
