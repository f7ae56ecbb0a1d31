"""Every configuration in the documents is one: `pilotlight check` reads it.

A block that begins with ```toml is a configuration, whole or in part. What a part leaves out is put around it: the
section that its keys belong to, services that its routes name, a route for its services. ```toml ignore marks the
configuration of another program.
"""

import json
import re
import subprocess
import tempfile
import tomllib
import unittest
from pathlib import Path

from harness import BINARY, ROOT, setUpModule

__all__ = ["setUpModule"]

DOCUMENTS = ["README.md", "docs/**/*.md", "sdk/*/README.md", "examples/**/README.md"]
BLOCK = re.compile(r"^```toml(?P<info>[^\n]*)\n(?P<text>.*?)^```", re.DOTALL | re.MULTILINE)
# What depends on the machine that the example is for: its programs and files, its addresses, its users. And nothing
# need lead to a part.
MACHINES = {"missing", "listen", "unused", "unsafe"}
SERVICE_KEYS = {"command", "url"}
ROUTE_KEYS = {"path", "host"}


class Example:
    def __init__(self, file, line, info, text):
        self.file, self.line, self.info = file, line, info
        self.before = self.heading(tomllib.loads(text))
        whole = tomllib.loads(self.before + text)
        self.text = self.before + text + "\n" + self.rest(whole)

    @staticmethod
    def heading(part):
        """The section that keys without one belong to."""
        if SERVICE_KEYS & set(part):
            return "[services.app]\n"
        if ROUTE_KEYS & set(part):
            return "[[routes]]\n"
        if isinstance(part.get("routes"), dict):
            return '[[routes]]\npath = "/"\nservice = "app"\n'
        return ""

    @staticmethod
    def rest(whole):
        """Sections for what is named and is not there."""
        services, routes = whole.get("services", {}), whole.get("routes", [])
        named = {route.get("service") for route in routes} - {None}
        added = [f'[services.{name}]\nurl = "http://127.0.0.1:9000"\n' for name in sorted(named - set(services))]
        if not routes:
            added += [f'[[routes]]\npath = "/{name}"\nservice = "{name}"\n' for name in services]
        return "".join(added)

    def wrong(self):
        """What `check` finds wrong with it, each with its place in the document."""
        with tempfile.TemporaryDirectory() as folder:
            config = Path(folder) / "pilotlight.toml"
            config.write_text(self.text)
            command = [BINARY, "check", "--json", "--config", config]
            done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        found = json.loads(done.stdout)["diagnostics"] if done.stdout.strip() else []
        if done.returncode not in (0, 2):
            return [f"{self.file}:{self.line}: {done.stderr}"]
        wrong = [one for one in found if one["code"] not in MACHINES]
        return [f"{self.place(one)}: {one['code']}: {one['message']} ({one['help']})" for one in wrong]

    def place(self, found):
        line = found["at"]["line"] - self.before.count("\n") if found["at"] else 1
        return f"{self.file}:{self.line + max(line, 1)}"


def examples():
    for pattern in DOCUMENTS:
        for file in sorted(ROOT.glob(pattern)):
            text = file.read_text()
            for block in BLOCK.finditer(text):
                line = text.count("\n", 0, block.start()) + 1
                yield file.relative_to(ROOT), line, block["info"].strip(), block["text"]


class Documents(unittest.TestCase):
    def test_every_configuration_is_one(self):
        wrong, count = [], 0
        for file, line, info, text in examples():
            if info == "ignore":
                continue
            count += 1
            with self.subTest(file=str(file), line=line):
                self.assertEqual(info, "", f"{file}:{line}: ```toml {info} means nothing")
            try:
                wrong += Example(file, line, info, text).wrong()
            except tomllib.TOMLDecodeError as error:
                wrong.append(f"{file}:{line}: {error}")
        self.assertEqual(wrong, [], "\n" + "\n".join(wrong))
        self.assertGreater(count, 15)

    def test_few_are_left_out(self):
        ignored = [f"{file}:{line}" for file, line, info, _ in examples() if info == "ignore"]
        self.assertLessEqual(len(ignored), 3, ignored)

    def test_a_mistake_is_found_where_it_is(self):
        """The test itself: a part with a mistake is completed, and the mistake has the document's line."""
        text = 'path = "/a"\nservice = "app"\ncahce = "5s"\n'
        wrong = Example("x.md", 10, "", text).wrong()
        self.assertEqual(len(wrong), 1, wrong)
        self.assertTrue(wrong[0].startswith("x.md:13: unknown-key"), wrong)


if __name__ == "__main__":
    unittest.main()
