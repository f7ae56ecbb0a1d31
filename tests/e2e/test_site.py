"""The site as it is built: every link of every page, nothing from elsewhere; and the page of the commands."""

import subprocess
import sys
import tempfile
import unittest
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from harness import BINARY, ROOT, setUpModule

__all__ = ["setUpModule"]

BUILD = ROOT / "site" / "build.py"
MDBOOK = Path(sys.executable).parent / "mdbook"
# Attributes that a browser follows by itself.
LOADED = {("script", "src"), ("img", "src"), ("iframe", "src"), ("link", "href")}


class Document(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.ids, self.links, self.loaded = set(), [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name == "id" or (tag == "a" and name == "name"):
                self.ids.add(value)
            elif tag == "a" and name == "href":
                self.links.append(value)
            elif (tag, name) in LOADED:
                self.loaded.append(value)


@unittest.skipUnless(MDBOOK.exists(), "mdbook is not installed")
class Site(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="pilotlight-site-")
        cls.addClassCleanup(folder.cleanup)
        cls.out = Path(folder.name).resolve() / "site"
        command = [sys.executable, "-B", BUILD, "--out", cls.out, "--mdbook", MDBOOK]
        cls.done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        pages = {path: path.read_text() for path in cls.out.rglob("*.html")}
        cls.pages = {path: Document(text) for path, text in pages.items() if path.name != "toc.html"}

    def test_it_is_built_without_a_complaint(self):
        self.assertEqual((self.done.returncode, self.done.stderr), (0, ""), self.done)
        self.assertGreater(len(self.pages), 100)

    def test_every_link_leads_to_a_page_and_a_heading(self):
        wrong = []
        for path, document in self.pages.items():
            for link in {*document.links, *document.loaded}:
                url = urlsplit(link)
                if url.scheme or url.netloc:
                    continue
                target = (path.parent / unquote(url.path)).resolve() if url.path else path
                if not target.exists():
                    wrong.append(f"{path.relative_to(self.out)}: {link}")
                elif url.fragment and target in self.pages and unquote(url.fragment) not in self.pages[target].ids:
                    wrong.append(f"{path.relative_to(self.out)}: {link}: no such heading")
        self.assertEqual(wrong, [], "\n" + "\n".join(wrong))

    def test_nothing_is_loaded_from_elsewhere(self):
        loaded = {link for document in self.pages.values() for link in document.loaded}
        self.assertTrue(loaded)
        self.assertEqual({link for link in loaded if urlsplit(link).scheme or link.startswith("//")}, set())
        styles = "".join(path.read_text() for path in self.out.rglob("*.css"))
        self.assertNotIn("url(http", styles.replace('"', "").replace("'", ""))
        self.assertEqual([path.name for path in self.out.rglob("*.woff*")], [])

    def test_a_page_that_is_not_there_is_said(self):
        """The builder itself: a link into nowhere ends it, with the place."""
        sys.path.insert(0, str(ROOT / "site"))
        import build
        import links

        pages = build.Pages()
        gone = links.links("[a](gone.md)")[0]
        with self.assertRaisesRegex(FileNotFoundError, "docs/start.md:1: gone.md"):
            pages.target("docs/start.md", gone)
        source = links.links("see [`main`](../crates/cli/src/main.rs) there")[0]
        self.assertIn(">`main`<", build.without_link("see [`main`](../crates/cli/src/main.rs) there", source))


class Commands(unittest.TestCase):
    def test_the_page_is_what_the_commands_say(self):
        command = [sys.executable, "-B", ROOT / "site" / "commands.py", "--check", BINARY]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        self.assertEqual((done.returncode, done.stderr), (0, ""))


if __name__ == "__main__":
    unittest.main()
