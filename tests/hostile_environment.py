"""``python -m tests.hostile_environment``: some of core's tests in an unusual environment.

SIGINT and SIGHUP are ignored, as under ``nohup``; standard input is closed; ``HOME`` and the locale
are not set; the folder's name has a blank and an umlaut. Started by root, the tests run as the user
``nobody``, if that user may read this Python. All engines are installed together with core.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parent.parent
TESTS = [
    f"packages/core/tests/{room}" for room in ("cli", "isolation", "artifact", "plugins", "config")
]


def main() -> int:
    """Run the tests in a copy of the repository."""
    with TemporaryDirectory(prefix="hostile-environment-") as folder:
        copy = Path(folder, "a b ü")
        leave_out = shutil.ignore_patterns(".git", ".nox", ".venv", "build", "__pycache__")
        shutil.copytree(ROOT, copy, ignore=leave_out)
        user = _other_user()
        if user is not None:
            for path in (Path(folder), *Path(folder).rglob("*")):
                os.chown(path, user, -1)
        environment = {
            name: value
            for name, value in os.environ.items()
            if name not in ("HOME", "USER", "LOGNAME") and not name.startswith("PYTHON")
        }
        pytest = ("-m", "pytest", "-c", "pyproject.toml", "-p", "no:cacheprovider", "-n2")
        return subprocess.run(
            [sys.executable, *pytest, "--basetemp", str(copy / "tmp"), *TESTS, *sys.argv[1:]],
            cwd=copy,
            env={**environment, "LANG": "C", "LC_ALL": "C"},
            user=user,
            preexec_fn=_be_in_the_background,
            check=False,
        ).returncode


def _other_user() -> int | None:
    """Return the user to run as instead of root; None if not needed or not possible."""
    if os.getuid():
        return None
    user = pwd.getpwnam("nobody").pw_uid
    try:
        subprocess.run([sys.executable, "-c", "import enginebay"], user=user, cwd="/", check=True)
    except (OSError, subprocess.CalledProcessError) as err:
        print(f"the tests run as root, since 'nobody' cannot run this Python: {err}")
        return None
    return user


def _be_in_the_background() -> None:
    os.close(0)
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


if __name__ == "__main__":
    sys.exit(main())
