"""A plugin of pytest: in CI (`CI` is set) a test that skips fails, as scripts/setup.sh installs what tests need.

Two kinds of skips are let pass, by how their reason begins:

    not here: …    what this machine or this user is: root or not, its kernel, its processor
    optional: …    what only the lab compares with, and `lab/peers/*/build.sh` builds
"""

import os

import pytest

LET_PASS = ("not here: ", "optional: ")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if os.environ.get("CI") and report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2].removeprefix("Skipped: ")
        if not reason.startswith(LET_PASS):
            report.outcome = "failed"
            report.longrepr = f"skipped in CI: {reason}: scripts/setup.sh has to install it (see tests/skips.py)"
    return report
