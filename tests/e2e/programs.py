"""Programs that tests run and that a machine may lack: a test whose program is missing is skipped.

In CI such a skip is a failure (tests/skips.py), because scripts/setup.sh installs what tests need.
"""

import os
import shutil
import unittest

# Debian installs servers in folders that a user's PATH does not have.
PLACES = ("/usr/sbin", "/lib/systemd")


def find(*names):
    """Returns the path of the first of these programs that is installed, or None."""
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), *PLACES])
    return next((found for name in names if (found := shutil.which(name, path=path))), None)


def program(*names):
    """Returns the path of the first of these programs that is installed; skips the test if none is."""
    if found := find(*names):
        return found
    raise unittest.SkipTest(f"{names[0]} is not installed")


def installed(path, what):
    """Returns the path of a file that scripts/setup.sh makes; skips the test if it does not exist."""
    if path.exists():
        return path
    raise unittest.SkipTest(f"{what} is not installed")


def needs(*names):
    """Decorates a test, or a class, that is skipped unless all of these programs are installed."""
    missing = next((name for name in names if not find(name)), None)
    return unittest.skipIf(missing, f"{missing} is not installed")
