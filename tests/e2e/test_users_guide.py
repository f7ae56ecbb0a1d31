"""The commands of docs/guide/users-service.md, as they stand there, on free ports and with the binaries under test."""

import re
import shlex
import subprocess
import tempfile
from pathlib import Path

from harness import ROOT, TestCase, setUpModule
from users_service import Redis, Users

__all__ = ["setUpModule"]

DOCS = ROOT / "docs"
PORT = "127.0.0.1:3000"


def commands(page, start):
    """The commands of a page's blocks that begin so, without what is said behind them."""
    blocks = re.findall(r"^```\n(.*?)^```", (DOCS / page).read_text(), re.S | re.M)
    lines = [line for block in blocks for line in block.splitlines() if line.startswith(start)]
    return [shlex.split(line, comments=True) for line in lines]


class GuideTest(TestCase):
    def test_the_service_alone_and_what_curl_asks_it(self):
        folder = tempfile.TemporaryDirectory(prefix="pilotlight-users-guide-")
        self.addCleanup(folder.cleanup)
        redis = Redis()
        self.addCleanup(redis.stop)
        redis.start()
        starts = commands("guide/users-service.md", "cargo run --release -p users -- ")
        asked = commands("guide/users-service.md", "curl ")
        self.assertEqual((len(starts), len(asked)), (3, 2))
        for number, start in enumerate(starts[:2]):  # the third names a host of the reader's
            self.assertEqual(start[6:8], ["--listen", PORT])
            arguments = [redis.url if word == "redis://localhost" else word for word in start[8:]]
            users = Users(Path(folder.name, f"{number}.db"), *arguments)
            self.addCleanup(users.stop)
            users.start()
            for status, command in zip(["200", "201"], asked):
                here = [word.replace(PORT, "{}:{}".format(*users.address)) for word in command]
                done = subprocess.run(here, capture_output=True, text=True, timeout=60)
                self.assertEqual((done.returncode, done.stdout.split()[1]), (0, status), done.stdout + done.stderr)
