"""Who runs the embedded server: the person at the keyboard, or for root an account of its own.

PostgreSQL refuses to run as root. The account needs to pass through the folders above the data and above the server's
programs, so those that shut others out get the right to be passed through (never to be read) by everyone.
"""

import os
import pwd
import shutil
import stat
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

NAME = "pgserver"
PASS = stat.S_IXOTH
READ = stat.S_IROTH


@dataclass(frozen=True)
class Account:
    """A user of the machine, as numbers."""

    user: int
    group: int

    def as_process(self) -> dict[str, Any]:
        """Arguments of ``subprocess.run`` that make the child run as this account."""
        if os.geteuid() == self.user:
            return {}
        return {"user": self.user, "group": self.group, "extra_groups": []}

    def take(self, folder: Path) -> None:
        """Owns the folder from now on, alone, and can reach it."""
        os.chown(folder, self.user, self.group)
        folder.chmod(stat.S_IRWXU)
        if os.geteuid() != self.user:
            let_through(folder.parent)


def account_for(cluster: Path) -> Account:
    """The owner of a cluster that exists, else whoever runs the command, else for root an account made for it."""
    if os.geteuid() != 0:
        return Account(os.geteuid(), os.getegid())
    owner = cluster.stat() if cluster.exists() else None
    if owner and owner.st_uid != 0:
        return Account(owner.st_uid, owner.st_gid)
    entry = _entry() or _make()
    return Account(entry.pw_uid, entry.pw_gid)


def let_through(folder: Path) -> None:
    """Lets everyone pass through the folder and all above it."""
    for each in (folder, *folder.parents):
        mode = each.stat().st_mode
        if not mode & PASS:
            each.chmod(stat.S_IMODE(mode) | PASS)


def let_read(folder: Path) -> None:
    """Lets everyone read and run what is in the folder, as after an installation under a strict umask."""
    let_through(folder.parent)
    if all(path.stat().st_mode & READ for path in (folder, *folder.rglob("*"))):
        return
    for path in (folder, *folder.rglob("*")):
        mode = stat.S_IMODE(path.stat().st_mode)
        path.chmod(mode | READ | (PASS if mode & stat.S_IXUSR else 0))


def _entry() -> pwd.struct_passwd | None:
    try:
        return pwd.getpwnam(NAME)
    except KeyError:
        return None


def _make() -> pwd.struct_passwd:
    program = shutil.which("useradd")
    if program:
        # Two commands may both try: the second one's failure is the first one's success.
        words = [program, "--system", "--no-create-home", NAME]
        subprocess.run(words, check=False, capture_output=True)  # noqa: S603  # no word comes from outside
    entry = _entry()
    if entry is None:
        raise PermissionError(f"root cannot run PostgreSQL: make a user named {NAME}, or run as another user")
    return entry
