"""The terminal of README.md shows what the commands print: the session is played again, and the shapes are compared."""

import re
import sys
import unittest
import xml.etree.ElementTree as xml

import pages
from harness import BINARY, ROOT, setUpModule
from ports import free_port

sys.path.insert(0, str(ROOT / "site"))

import recording  # noqa: E402
import terminal  # noqa: E402

__all__ = ["setUpModule"]

SVG = "{http://www.w3.org/2000/svg}"


class Recording(unittest.TestCase):
    def test_the_commands_still_print_that(self):
        root = xml.parse(recording.PICTURE).getroot()
        drawn = ["".join(text.itertext()) for text in root.iter(f"{SVG}text") if text.get("class") == "line"]
        played = []
        for step in recording.session(BINARY, free_port()):
            played += [f"$ {step.typed}", *(terminal.plain(line) for line in step.lines)]
        shapes = [pages.shape(line) for line in played if line.strip()]
        self.assertEqual([pages.shape(line) for line in drawn], shapes, "make recording")
        self.assertGreater(len(drawn), 20)

    def test_it_is_whole_where_nothing_moves_and_loads_nothing(self):
        text = recording.PICTURE.read_text()
        moving = text[text.index("@media (prefers-reduced-motion: no-pref") : text.index("</style>")]
        self.assertEqual(text.count("animation:"), moving.count("animation:"), "lines move only where motion is wanted")
        self.assertNotRegex(text, r"<script|<image|@import|url\((?!#)|href=")
        self.assertNotIn(str(ROOT), text)

    def test_it_is_in_the_readme(self):
        readme = (ROOT / "README.md").read_text()
        self.assertRegex(readme, re.compile(r"!\[[^\]]{40,}\]\(docs/images/terminal\.svg\)", re.DOTALL))

    def test_colours_become_classes(self):
        self.assertEqual(list(terminal.spans("a\x1b[1;32mb\x1b[0mc\x1b[K")), [("", "a"), ("bold green", "b"), ("", "c")])


if __name__ == "__main__":
    unittest.main()
