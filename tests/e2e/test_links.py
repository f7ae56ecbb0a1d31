"""Every link of the documentation leads somewhere: to a file that is there, and to an anchor that it has."""

import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "site"))

import build  # noqa: E402
import links  # noqa: E402

FOLDERS = ["docs", "crates", "sdk", "lab", "examples"]
DOCUMENTS = ["*.md", *(f"{folder}/**/*.md" for folder in FOLDERS), "tests/*/README.md", "fuzz/README.md"]
# What is built or installed, and outputs that tests compare with.
OTHERS = {"target", "node_modules", "snapshots", "data", "suite"}


def documents():
    found = {path for pattern in DOCUMENTS for path in ROOT.glob(pattern)}
    return sorted(path for path in found if not OTHERS & set(path.relative_to(ROOT).parts))


def wrong(path, anchors):
    """What is wrong with the links of a document; `anchors` gives those of another one."""
    for link in links.links(path.read_text()):
        if link.is_external:
            continue
        target = (path.parent / link.path).resolve() if link.path else path
        place = f"{path}:{link.line}: {link.target}"
        if not target.exists():
            yield f"{place}: no such file"
        elif ROOT not in target.parents and ROOT in path.parents:
            yield f"{place}: leads out of the repository"
        elif link.anchor and target.suffix == ".md" and link.anchor not in anchors(target):
            yield f"{place}: no such heading"


class Links(unittest.TestCase):
    known = {}

    def anchors(self, path):
        if path not in self.known:
            self.known[path] = links.anchors(path.read_text())
        return self.known[path]

    def test_every_link_leads_somewhere(self):
        found = [one for path in documents() for one in wrong(path, self.anchors)]
        self.assertEqual(found, [], "\n" + "\n".join(found))
        count = sum(len(links.links(path.read_text())) for path in documents())
        self.assertGreater(count, 500)

    def test_every_page_is_in_the_contents(self):
        pages = build.listed()
        docs = {str(path.relative_to(ROOT)) for path in ROOT.glob("docs/**/*.md")} - {build.SUMMARY}
        self.assertEqual(docs - set(pages), set(), f"{build.SUMMARY} does not list them")
        self.assertEqual([page for page in pages if not (ROOT / page).exists()], [])

    def test_mistakes_are_found(self):
        with tempfile.TemporaryDirectory() as folder:
            page = Path(folder) / "a.md"
            (Path(folder) / "b.md").write_text("# One\n\n## Two `[words]`: of it\n\n## One\n\n```sh\n# none\n```\n")
            lines = ["[a](b.md#one-1) [b](b.md#two-words-of-it) [`c`](b.md#none)", "`[d](gone)` [e](gone.md)"]
            page.write_text("\n".join([*lines, "![f](f(1).png)", ""]))
            found = [one.removeprefix(str(page)) for one in wrong(page, self.anchors)]
        gone = [":1: b.md#none: no such heading", ":2: gone.md: no such file", ":3: f(1).png: no such file"]
        self.assertEqual(found, gone)


if __name__ == "__main__":
    unittest.main()
