"""The pages of docs/start.md, docs/tasks and docs/from do what they say: their files and commands are played."""

import re
import subprocess
import tempfile
import unittest
from pathlib import Path

import pages
from harness import BINARY, ROOT, setUpModule
from ports import free_port
from programs import program

__all__ = ["setUpModule"]

DOCS = ROOT / "docs"
PLAYED = [DOCS / "start.md", *sorted(DOCS.glob("tasks/*.md")), *sorted(DOCS.glob("from/*.md"))]
# Pages without anything that can run here: containers need images of a registry, clients of Redis are compiled
# (lab/peers/migration/check.py).
ONLY_READ = {"containers.md", "redis-rs.md", "fred.md"}


class Pages(unittest.TestCase):
    def play(self, path):
        with tempfile.TemporaryDirectory(prefix="pilotlight-docs-") as folder:
            page = pages.Page(path, Path(folder), [free_port() for _ in pages.PORTS])
            page.play()
        self.assertTrue(page.played or path.name in ONLY_READ, "something was played")

    def test_nothing_is_forgotten(self):
        wrong = [f"{path.relative_to(ROOT)}, {place}" for path in PLAYED for place in pages.unmarked(path.read_text())]
        self.assertEqual(wrong, [], "no mark says what becomes of these blocks (tests/e2e/pages.py)")

    def test_lines_are_compared_by_their_shape(self):
        printed = "hello    ready          1  12082      0s         3  188µs  14.4MiB\nend\n"
        self.assertIsNone(pages.differs("hello ready 1 7 15m … 2.2ms 9.0MiB\nend\n", printed))
        self.assertIsNone(pages.differs("…\nend\n", printed))
        self.assertIsNone(pages.differs("hello …\n…\n", printed))
        self.assertEqual(pages.differs("…\nhello failed …\nend\n", printed), "hello failed …")
        self.assertEqual(pages.differs("hello …\n", printed), "(the end)")
        self.assertEqual(pages.differs("end\n", printed), "end")

    def test_units_are_what_systemd_takes(self):
        text = (DOCS / "tasks" / "systemd.md").read_text()
        found = [block for block in pages.blocks(text) if block.language == "ini"]
        self.assertEqual([block.word for block in found], ["pilotlight.service", "pilotlight.socket"])
        with tempfile.TemporaryDirectory() as folder:
            for block in found:
                unit = re.sub(r"(?m)^(Exec\w+)=\S+", rf"\1={BINARY}", block.text)
                (Path(folder) / block.word).write_text(unit.replace("User=pilotlight\n", ""))
            units = [str(Path(folder) / block.word) for block in found]
            command = [program("systemd-analyze"), "verify", "--man=no", *units]
            done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        ours = [line for line in done.stderr.splitlines() if "pilotlight." in line]
        self.assertEqual(ours, [], done.stderr)


def add(path):
    name = f"test_{path.parent.name}_{path.stem}".replace("-", "_")
    setattr(Pages, name, lambda self: self.play(path))


for one in PLAYED:
    add(one)

if __name__ == "__main__":
    unittest.main()
