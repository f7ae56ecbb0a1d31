"""The order of the end-to-end tests: those that take longest first, so that none is left when the others are done."""

import compileall
import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS))

# Services start some hundred times. Those that write no bytecode (`-B`, PYTHONDONTWRITEBYTECODE) would compile the SDK
# each time, which is half of their start.
compileall.compile_dir(TESTS.parent / "sdk" / "python" / "pilotlight", quiet=2)

pytest_plugins = ["skips"]

# As `make test` lists them at its end; the rest takes less than three seconds each.
LONGEST = """
test_lab_report.py::Report::test_noise_is_refused_and_said
test_lab.py::Lab::test_other_gateways_are_measured_or_named_with_what_to_install
test_lab.py::Lab::test_a_quick_run_measures_all_cases_for_rust_and_python
test_cache_redis.py::ClusterFaults
test_lab_cache.py::Cache::test_passing_on_over_http_and_the_pipe
test_defects.py::Defects::test_3_a_gigabyte_on_stdout
test_users_lab.py::RestTest
test_lab_cache.py::Cache
test_trust.py::Clients
test_testssl.py
test_files_traversal.py
test_lab_report.py::Report
test_lab.py::Lab
test_lab_show.py
test_hits.py::Quiet
test_soak.py
test_flood.py
test_acme.py
test_files_large.py
test_pipe_upgrades.py
test_uploads.py::Drips
test_scaling.py
test_lifecycle.py
test_upgrade.py
test_zygote.py
""".split()


def pytest_collection_modifyitems(items):
    """A stable sort: what is not listed keeps its order, at the end."""
    places = {}
    for item in items:
        place = next((place for place, start in enumerate(LONGEST) if item.nodeid.startswith(start)), None)
        places[item] = len(LONGEST) if place is None else place
    items.sort(key=places.__getitem__)
