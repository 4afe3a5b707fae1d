"""The secret under which keys are hashed: from the settings, else one of the data folder's own for the embedded server.

A server given by its address is shared by processes on several machines, and a pepper that one of them makes up would
lock the others' keys out; so there it has to be given.
"""

import os
import secrets
import tempfile
from pathlib import Path
from typing import Final

from core.config import Settings
from core.errors import BillingError

FILE: Final = "pepper"


class PepperMissing(BillingError):
    """A server given by its address, and no pepper."""

    def __init__(self) -> None:
        super().__init__(
            "GPU_BILLING_PEPPER is not set: keys on a server given by its address need a secret of 32 characters or"
            " more, the same for all that serve it"
        )


def pepper(settings: Settings) -> bytes:
    """The secret; raises ``PepperMissing``."""
    if settings.pepper is not None:
        return settings.pepper.get_secret_value().encode()
    if settings.database_url is not None:
        raise PepperMissing
    return _own(settings.data)


def _own(data: Path) -> bytes:
    """The data folder's pepper, made by the first who asks; whoever comes second gets the first one's."""
    file = data / FILE
    if not file.exists():
        data.mkdir(parents=True, exist_ok=True)
        handle, fresh = tempfile.mkstemp(prefix="pepper.new-", dir=data)  # readable by its owner alone
        try:
            with os.fdopen(handle, "w") as stream:
                stream.write(secrets.token_urlsafe(32))
                stream.flush()
                os.fsync(stream.fileno())
            file.hardlink_to(fresh)  # whole or not at all, and never over another
        except FileExistsError:
            pass
        finally:
            Path(fresh).unlink()
    return file.read_bytes().strip()
