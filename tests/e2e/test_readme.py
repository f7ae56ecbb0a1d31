"""The example of README.md: its files as they stand there answer."""

import re
import tempfile
import unittest
from pathlib import Path

from harness import BINARY, ROOT, Gateway, TestCase, setUpModule

__all__ = ["setUpModule"]


class Example(TestCase):
    def test_it_answers(self):
        text = (ROOT / "README.md").read_text()
        block = lambda kind: re.search(rf"```{kind}\n(.*?)```", text, re.DOTALL)[1]  # noqa: E731
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        (folder / "hello.py").write_text(block("python"))
        file = block("toml").replace("127.0.0.1:8080", "127.0.0.1:0").replace("/path/to/pilotlight", str(ROOT))
        file = file.replace('"hello.py"', f'"{folder}/hello.py"')
        gateway = self.start(Gateway(BINARY, file))
        for verdict in ("stored", "hit"):
            answer = gateway.get("/there")
            self.assert_status(answer, 200)
            self.assertEqual(answer.body, b"hello, you asked for /there\n")
            self.assertIn(verdict, answer.get("cache-status"))


if __name__ == "__main__":
    unittest.main()
