#!/usr/bin/env python3
"""Builds the documentation as a site: `make site` writes it into target/site, which works from a folder and offline.

The pages are the Markdown files of the repository, at the paths where they are, so relative links hold in both. This
script copies those that docs/SUMMARY.md lists (and the decisions, which it lists itself), and adjusts what a site has
not: a link to a file that is no page leads into the repository, or is its text where Cargo.toml names none yet.
"""

import argparse
import html
import os
import posixpath
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import links  # noqa: E402

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
SUMMARY = "docs/SUMMARY.md"
DECISIONS = "docs/adr/README.md"
MDBOOK = ROOT / "target" / "venv" / "bin" / "mdbook"
# Files that pages show or offer, copied beside them.
ASSETS = {".png", ".svg", ".json", ".yml"}
# The project has no repository that others reach yet: Cargo.toml has a stand-in.
STAND_IN = ".example"


class Failure(Exception):
    pass


def title(path):
    first = next(line for line in (ROOT / path).read_text().splitlines() if line.startswith("# "))
    return first[2:]


def join(page, target):
    """The path in the repository that a link on a page means."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(page), target))


def listed():
    """The pages of the site: those of the summary, and every decision."""
    text = (ROOT / SUMMARY).read_text()
    pages = [join(SUMMARY, link.path) for link in links.links(text)]
    return dict.fromkeys(pages + [str(path.relative_to(ROOT)) for path in decisions()])


def decisions():
    return sorted((ROOT / "docs" / "adr").glob("[0-9]*.md"))


def staged(path):
    """Where a page is in the site: README.md is the index of its folder."""
    return re.sub(r"(^|/)README\.md$", r"\1index.md", path)


def repository():
    url = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["repository"]
    return None if STAND_IN in url else url.rstrip("/")


class Pages:
    def __init__(self):
        self.pages = listed()
        self.repository = repository()
        self.assets = set()

    def target(self, page, link):
        """What a link becomes: another target, or None if the site has none."""
        if link.is_external or not link.path:
            return link.target
        path, anchor = join(page, link.path), f"#{link.anchor}" if link.anchor else ""
        if (ROOT / path).is_dir() and f"{path}/README.md" in self.pages:
            path = f"{path}/README.md"
        if path in self.pages:
            return posixpath.relpath(staged(path), posixpath.dirname(page) or ".") + anchor
        if not (ROOT / path).exists():
            raise FileNotFoundError(f"{page}:{link.line}: {link.target} is not there")
        if (ROOT / path).suffix in ASSETS and path.startswith(("docs/", "contrib/")):
            self.assets.add(path)
            return link.target
        kind = "tree" if (ROOT / path).is_dir() else "blob"
        return f"{self.repository}/{kind}/main/{path}{anchor}" if self.repository else None

    def text(self, page):
        text = (ROOT / page).read_text()
        for link in reversed(links.links(text)):
            target = self.target(page, link)
            if target is not None:
                text = text[: link.start] + target + text[link.end :]
            else:
                text = without_link(text, link)
        return text


def without_link(text, link):
    """The text of a link alone, with what it leads to in the repository as a hint."""
    close = text.rindex("](", 0, link.start)
    depth, start = 1, close
    while depth:
        start -= 1
        depth += {"]": 1, "[": -1}.get(text[start], 0)
    end = text.index(")", link.end) + 1
    shown = text[start + 1 : close]
    hint = html.escape(f"In the repository: {link.target}")
    return f'{text[:start]}<span class="source" title="{hint}">{shown}</span>{text[end:]}'


def summary():
    """The summary as mdBook wants it, at the top of the pages, with the decisions below theirs."""
    text = (ROOT / SUMMARY).read_text()
    for link in reversed(links.links(text)):
        text = text[: link.start] + staged(join(SUMMARY, link.path)) + text[link.end :]
    entry = f"({staged(DECISIONS)})\n"
    below = (f"  - [{title(path.relative_to(ROOT))}]({path.relative_to(ROOT)})\n" for path in decisions())
    return text.replace(entry, entry + "".join(below))


def stage(folder):
    shutil.rmtree(folder, ignore_errors=True)
    pages = Pages()
    for page in pages.pages:
        target = folder / "src" / staged(page)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(pages.text(page))
    for asset in pages.assets:
        target = folder / "src" / asset
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / asset, target)
    (folder / "src" / "SUMMARY.md").write_text(summary())
    for name in ("style.css", "page.js"):
        shutil.copyfile(HERE / name, folder / name)
    shutil.copytree(HERE / "theme", folder / "theme")
    book = (HERE / "book.toml").read_text()
    if pages.repository:
        book = book.replace("[output.html]\n", f'[output.html]\ngit-repository-url = "{pages.repository}"\n')
    (folder / "book.toml").write_text(book)


def build(out, mdbook):
    folder = Path(f"{out}-pages")
    stage(folder)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MDBOOK_")}
    command = [mdbook, "build", "--dest-dir", out.resolve(), folder]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    complaints = [line for line in done.stderr.splitlines() if re.search(r"\b(WARN|ERROR)\b", line)]
    if done.returncode or complaints:
        raise Failure("\n".join(complaints) or done.stderr)
    return len(list(out.rglob("*.html")))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=ROOT / "target" / "site")
    parser.add_argument("--mdbook", type=Path, default=MDBOOK)
    arguments = parser.parse_args()
    if not arguments.mdbook.exists():
        sys.exit(f"no mdbook at {arguments.mdbook}: run scripts/setup.sh site")
    try:
        count = build(arguments.out, arguments.mdbook)
    except (Failure, FileNotFoundError) as error:
        sys.exit(f"the site was not built: {error}")
    print(f"{count} pages: file://{arguments.out.resolve()}/index.html")


if __name__ == "__main__":
    main()
