"""The order of the end-to-end tests: those that take longest first, so that none is left when the others are done."""

import compileall
import signal
import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS))

# A shell has programs that it starts in the background ignore Ctrl-C. So would gateways that tests start, and tests
# that press it would wait in vain. A program that is executed has no handlers of who started it.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Services start some hundred times. Those that write no bytecode (`-B`, PYTHONDONTWRITEBYTECODE) would compile the SDK
# each time, which is half of their start.
compileall.compile_dir(TESTS.parent / "sdk" / "python" / "pilotlight", quiet=2)

pytest_plugins = ["skips"]

# Files and classes that took more than 12 seconds when all ran, the longest first. The first five are of the lab, which
# is a suite of its own. The next four were not measured: they need programs that a machine may lack.
LONGEST = """
test_lab_report.py::Report
test_lab.py::Lab
test_lab_cache.py::Cache
test_users_lab.py::RestTest
test_lab_show.py
test_testssl.py
test_containers.py
test_acme.py
test_trust.py::Clients
test_schema.py::Mutations
test_flood.py::Flood
test_cache_redis.py::ClusterFaults
test_deploy.py::Releases
test_pages.py::Pages
test_pipe_upgrades.py::Asgi
test_stdio.py::Bounds
test_files_traversal.py::Traversal
test_pipe_upgrades.py::Python
test_many_gateways.py::Eight
test_runtimes.py::Process
test_hits.py::Quiet
test_purge_nodes.py::Faults
test_cache_redis.py::Faults
test_pipe_upgrades.py::Rust
test_jwt.py::Keys
test_deploy.py::BrokenReleases
test_lifecycle.py::Stop
test_http2.py::Bounds
test_schedules.py::ByTheClock
test_upstream_letter.py::NoSilence
test_scaling.py::IdleBoundary
test_uploads.py::Drips
test_upgrade.py::Upgrade
test_purge_nodes.py::AllIsWell
test_isolation.py::Secrets
test_defects.py::Defects
test_isolation.py::StrictSettings
test_deploy.py::ChangingReleases
test_doctor.py::Doctor
test_hostile.py::Times
test_isolation.py::Strict
""".split()


def pytest_collection_modifyitems(items):
    """A stable sort: what is not listed keeps its order, at the end."""
    places = {name: place for place, name in enumerate(LONGEST)}

    def place(item):
        return min(places.get(name, len(LONGEST)) for name in (item.nodeid.rsplit("::", 1)[0], item.path.name))

    items.sort(key=place)
