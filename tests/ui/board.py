"""TensorBoard and headless Chromium as a person has them, for tests/ui/check.py.

    with Board(logdir) as board:
        board.open("scalars")
        [card] = board.find("tf-scalar-card")       # in shadow roots too
        board.data("scalars/tags")                  # what the page itself asks for

Both listen on, and speak to, the loopback interface alone.  Nothing of pyflow is imported: this
runs where tensorboard and selenium are (.venv-ui).  One thread.
"""
import contextlib
import io
import json
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request

from PIL import Image
from selenium import webdriver
from selenium.common.exceptions import WebDriverException
from selenium.webdriver.chrome.service import Service

PATIENCE = 60                           # seconds for what a page shows sooner or later
FLAGS = ("--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-sync "
         "--disable-background-networking --disable-component-update --window-size=1280,1100 "
         "--force-color-profile=srgb").split()
NO_NAMES = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"
FIND = """
const found = [], [selector, root] = arguments;
(function walk(node) {
  if (node.shadowRoot) walk(node.shadowRoot);
  for (const child of node.children) {
    if (child.matches(selector)) found.push(child);
    walk(child);
  }
})(root || document);
return found;"""
TEXTS = """
const texts = [];
(function walk(node) {
  if (node.shadowRoot) walk(node.shadowRoot);
  for (const child of node.childNodes) {
    if (child.nodeType == 3 && child.textContent.trim()) texts.push(child.textContent.trim());
    if (child.nodeType == 1 && !['STYLE', 'SCRIPT'].includes(child.nodeName)) walk(child);
  }
})(arguments[0]);
return texts;"""


def wait(what, condition, seconds=PATIENCE):
    """condition()'s value, once it is true; AssertionError says what was awaited."""
    end, last = time.monotonic() + seconds, None
    while time.monotonic() < end:
        try:
            last = condition()
            if last:
                return last
        except (WebDriverException, IndexError, ValueError) as error:   # half of a page
            last = error
        time.sleep(0.2)
    raise AssertionError(f"{what}: not within {seconds} s; last seen: {last!r}")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Board(contextlib.ExitStack):
    """A TensorBoard on a log folder, and a browser beside it; both end with the block."""

    def __init__(self, logdir):
        super().__init__()
        self.address = f"http://127.0.0.1:{free_port()}"
        scratch = pathlib.Path(self.enter_context(tempfile.TemporaryDirectory()))
        with contextlib.ExitStack() as undo:
            undo.push(self)             # if the second does not start
            self._start_server(logdir, scratch / "tensorboard.log")
            self.browser = self._start_browser(scratch)
            undo.pop_all()

    def _start_server(self, logdir, log):
        with open(log, "wb") as file:
            server = subprocess.Popen(
                [sys.executable, "-m", "tensorboard.main", "--logdir", str(logdir), "--host",
                 "127.0.0.1", "--port", self.address.rpartition(":")[2]], stdout=file, stderr=file)
        self.callback(server.wait)
        self.callback(server.terminate)

        def answers():
            assert server.poll() is None, f"TensorBoard ended: {log.read_text()}"
            return self.data("scalars/tags")
        wait("TensorBoard reads the folder", answers)

    def _start_browser(self, scratch):
        options = webdriver.ChromeOptions()
        options.binary_location = shutil.which("chromium")
        for flag in (*FLAGS, NO_NAMES, f"--user-data-dir={scratch / 'profile'}"):
            options.add_argument(flag)
        browser = webdriver.Chrome(options, Service(shutil.which("chromedriver")))
        self.callback(browser.quit)
        return browser

    def data(self, path, **query):
        """The JSON of a plugin's endpoint, or its bytes; None where it does not answer yet."""
        url = f"{self.address}/data/plugin/{path}?{urllib.parse.urlencode(query)}"
        try:
            with urllib.request.urlopen(url, timeout=30) as reply:
                data = reply.read()
                return json.loads(data) if "json" in reply.headers["Content-Type"] else data
        except OSError:
            return None

    def open(self, page):
        self.browser.get("about:blank")             # so that the next is loaded from its beginning
        self.browser.get(f"{self.address}/#{page}")

    def find(self, selector, root=None, text=None):
        """The elements below root, in shadow roots too; of those the ones that say `text`."""
        found = self.browser.execute_script(FIND, selector, root)
        return found if text is None else [e for e in found if "".join(self.texts(e)) == text]

    def texts(self, element):
        """[text] of an element and all below it, shadow roots included."""
        return self.browser.execute_script(TEXTS, element)

    def picture(self, path, colours=128):
        """What the window shows, as a PNG file of few colours."""
        shown = Image.open(io.BytesIO(self.browser.get_screenshot_as_png())).convert("RGB")
        shown.quantize(colours, dither=Image.Dither.NONE).save(path, optimize=True)
