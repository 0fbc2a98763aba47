"""The documentation's site, as a reader meets it: python tests/ui/check_docs.py build/site

Every link inside of it leads to a page and a heading that are there; every public symbol, command and
page of docs/ is found; with Chromium on PATH pages and the search are opened in it, headless.  Exit
status 1, with what is wrong, a line each.
"""
import html.parser
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import urllib.parse

import pyflow as tf
from pyflow import _public
from pyflow.tools import command

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Page(html.parser.HTMLParser):
    """The links and the anchors of a page."""

    def __init__(self, path):
        super().__init__()
        self.links, self.anchors = [], set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        if attrs.get("id"):
            self.anchors.add(attrs["id"])
        for key in ("href", "src"):
            if attrs.get(key):
                self.links.append(attrs[key])


def broken_links(site):
    """(page, link) of what leads nowhere."""
    pages = {path: Page(path) for path in site.rglob("*.html")}
    for path, found in pages.items():
        for link in found.links:
            parts = urllib.parse.urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            to = path if not parts.path else (path.parent / urllib.parse.unquote(parts.path)).resolve()
            to = to / "index.html" if to.is_dir() else to
            if not to.exists():
                yield path.relative_to(site), link
            elif parts.fragment and to in pages and to.suffix == ".html" and \
                    urllib.parse.unquote(parts.fragment) not in pages[to].anchors | {"top"}:
                yield path.relative_to(site), link


def missing(site):
    """What should be there and is not."""
    anchors = set()
    for path in (site / "api").glob("*.html"):
        anchors |= Page(path).anchors
    text = "".join(path.read_text(encoding="utf-8") for path in (site / "api").glob("*.html"))
    for words in _public.PUBLIC.values():
        for name in words.split():
            if f"tf.{name}" not in anchors and f"tf.{name}" not in text and _is_here(name):
                yield f"tf.{name} is in no page"
    for name in command.COMMANDS:
        if not (site / "commands" / f"{name}.html").exists():
            yield f"python -m pyflow {name} has no page"
    for path in (ROOT / "docs").glob("*.md"):
        if not (site / f"{path.stem}.html").exists():
            yield f"{path.name} is not in the site"


def _is_here(name):
    found = tf
    try:
        for part in name.split("."):
            found = getattr(found, part)
    except (AttributeError, ImportError):
        return False
    return True


def dom(page, profile):
    """A page as Chromium has it once its scripts have run."""
    words = [shutil.which("chromium"), "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
             "--disable-background-networking", "--disable-component-update", "--disable-sync",
             "--allow-file-access-from-files", f"--user-data-dir={profile}",
             "--virtual-time-budget=20000", "--dump-dom", page]
    return subprocess.run(words, capture_output=True, text=True, timeout=120).stdout


def in_chromium(site):
    """What a reader does not find there."""
    with tempfile.TemporaryDirectory() as profile:
        for page, wanted in ((site / "index.html", ["A tutorial of an hour", "The reference"]),
                             (site / "api" / "tf_nn.html", ["conv2d", "Convolution of images"]),
                             (site / "readme.html", ["architecture.svg", "Twenty lines"])):
            found = dom(page.as_uri(), profile)
            yield from (f"{page.name} in Chromium lacks {w!r}" for w in wanted if w not in found)
        for query, wanted in (("conv2d", "tf.nn.conv2d"), ("lease", "glossary.html")):
            found = dom(f"{(site / 'search.html').as_uri()}?q={query}", profile)
            if wanted not in found:
                yield f"the search for {query!r} does not find {wanted}"


def main(site):
    site = pathlib.Path(site).resolve()
    wrong = [f"{page}: {link} leads nowhere" for page, link in broken_links(site)]
    wrong += missing(site)
    if shutil.which("chromium"):
        wrong += in_chromium(site)
    elif os.environ.get("CI"):
        wrong.append("no chromium on PATH: apt-get install chromium")
    print("\n".join(wrong) or f"{sum(1 for _ in site.rglob('*.html'))} pages, no link leads nowhere"
          + (", opened in Chromium" if shutil.which("chromium") else ""))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
