"""TensorBoard's pages on what pyflow wrote, opened in a browser and compared by their content.

    .venv/bin/python tests/ui/write_logs.py DIR
    .venv-ui/bin/python tests/ui/check.py DIR [--pictures FOLDER]

Each page is awaited until it shows the tags; then its texts, elements and colours, and where it
draws on a canvas the answers of the endpoint it draws from, must be those of DIR/expected.json.
--pictures also writes PNGs of some pages.  AssertionError names what a page does not show.
"""
import argparse
import io
import json
import pathlib
import sys
import time
import wave

import numpy as np
from board import Board, wait
from graph_page import check_graphs

IMAGE = """
const [image] = arguments, canvas = document.createElement('canvas');
canvas.width = image.naturalWidth; canvas.height = image.naturalHeight;
const context = canvas.getContext('2d');
context.drawImage(image, 0, 0);
return Array.from(context.getImageData(0, 0, canvas.width, canvas.height).data);"""


def same(what, found, expected):
    assert found == expected, f"{what}: the page shows {found!r}, expected {expected!r}"


def near(what, found, expected, tolerance):
    close = np.shape(found) == np.shape(expected) and np.allclose(found, expected, 0, tolerance)
    assert close, f"{what}: the page shows {found}, expected {expected} within {tolerance}"


def series(board, plugin, name):
    """[[wall time, step, value]] that the page draws."""
    return board.data(f"{plugin}/{plugin}", run="train", tag=f"summaries/{name}")


def cards(board, loader, names):
    """The cards of a page, once there is one for each name."""
    def all_there():
        found = board.find(loader)
        texts = [board.texts(card) for card in found]
        if len(found) == len(names) and all(n in t for n, t in zip(names, texts, strict=True)):
            return found
        raise ValueError(texts)
    return wait(f"{loader} for {names}", all_there)


def check_scalars(board, expected):
    """A card for each curve; its line's points; the values of all steps."""
    board.open("scalars")
    names = sorted(expected["scalars"])
    cards(board, "tf-scalar-card", [f"summaries/{name}" for name in names])
    for name in names:
        found = series(board, "scalars", name)
        same(f"steps of {name}", [row[1] for row in found], list(range(expected["steps"])))
        near(name, [row[2] for row in found], expected["scalars"][name], 1e-6)
    return f"{len(names)} curves of {len(found)} values"


def check_timeseries(board, expected):
    """The table below each curve: the last step and its value, as texts."""
    board.open("timeseries")
    last = expected["steps"] - 1
    for name, values in sorted(expected["scalars"].items()):
        def row(name=name):
            [card] = [t for t in map(board.texts, board.find("card-view"))
                      if t[:2] == ["summaries", f"/{name}"] and "Value" in t]
            at = card.index("train")
            return card[at + 2:at + 4]      # behind run and smoothed value
        value, step = wait(f"the table of {name}", row)
        same(f"last step of {name}", step, str(last))
        near(f"last value of {name}", float(value), values[-1], 5e-4)
    return f"values of step {last} in the tables"


def check_histograms(board, expected):
    """A hill for each step; the counts and ends of its buckets."""
    board.open("histograms")
    names = sorted(expected["histograms"])
    for card, name in zip(cards(board, "tf-histogram-loader",
                                [f"summaries/{name}" for name in names]), names, strict=True):
        wait(f"a hill of {name} for each step",
             lambda card=card: len(board.find("g.histogram", card)) == expected["steps"])
        for (_, step, buckets), (low, high) in zip(
                series(board, "histograms", name), expected["histograms"][name], strict=True):
            count = sum(bucket[2] for bucket in buckets)
            near(f"{name}'s values in step {step}", count, expected["values"][name], 1e-6)
            near(f"{name}'s ends in step {step}", [buckets[0][0], buckets[-1][1]], [low, high],
                 0.02 * (high - low))
    return f"{len(names)} times {expected['steps']} hills"


def check_distributions(board, expected):
    """The lines of the quantiles: from the least value to the greatest, in order."""
    board.open("distributions")
    names = sorted(expected["histograms"])
    cards(board, "tf-distribution-loader", [f"summaries/{name}" for name in names])
    for name in names:
        for (_, step, points), (low, high) in zip(
                series(board, "distributions", name), expected["histograms"][name], strict=True):
            values = [value for _, value in points]
            same(f"{name}'s quantiles", [points[0][0], points[-1][0]], [0, 10000])
            same(f"{name}'s order in step {step}", values, sorted(values))
            near(f"{name}'s ends in step {step}", [values[0], values[-1]], [low, high],
                 0.1 * (high - low))
    return f"{len(names)} times {len(values)} quantiles"


def check_images(board, expected):
    """The pixels that the browser has decoded."""
    board.open("images")
    n = len(expected["images"])
    shown = cards(board, "tf-image-loader", [f"summaries/digits/image/{k}" for k in range(n)])
    for k, card in enumerate(shown):
        image = wait(f"image {k} is loaded", lambda card=card: [
            i for i in board.find("img", card) if i.get_property("naturalWidth")])[0]
        pixels = np.reshape(board.browser.execute_script(IMAGE, image), [8, 8, 4])
        source = np.array(expected["images"][k])
        near(f"pixels of image {k}", pixels[..., 0], source / source.max() * 255, 1)
        assert str(expected["steps"] - 1) in board.texts(card), board.texts(card)
    return f"{n} images of {pixels.shape[0]} x {pixels.shape[1]} pixels"


def check_audio(board, expected):
    """A player that has read the sound's length; the samples of the file it plays."""
    board.open("audio")
    [card] = cards(board, "tf-audio-loader", ["summaries/tone/audio/0"])
    player = wait("a player", lambda: board.find("audio", card))[0]
    wanted = expected["audio"]
    length = wait("the player reads the sound", lambda: player.get_property("duration"))
    near("seconds", length, wanted["seconds"], 1e-3)
    source = player.get_attribute("src").split("/data/plugin/")[1]
    with wave.open(io.BytesIO(board.data(source))) as file:
        same("rate", file.getframerate(), wanted["rate"])
        sound = np.frombuffer(file.readframes(file.getnframes()), "<i2")
    at = np.arange(round(wanted["rate"] * wanted["seconds"])) / wanted["rate"]
    near("samples", sound / 32767, 0.5 * np.sin(2 * np.pi * wanted["pitch"] * at), 3e-4)
    return f"{length} s of {wanted['pitch']} Hz"


def check_text(board, expected):
    """Markdown as elements, a row for each string, the last step first."""
    board.open("text")
    [card] = cards(board, "tf-text-loader", ["summaries/notes"])
    wait("headings", lambda: board.find("h1", card))
    for tag, said in (("h1", "Digits"), ("strong", "convolution"), ("em", "ten")):
        same(tag, [e.text for e in board.find(tag, card)][0], said)
    at = [t for t in board.texts(card) if t.isdigit()]
    same("steps", at, [str(k) for k in reversed(range(expected["steps"]))][:len(at)])
    return f"a heading and two styles, {len(at)} steps"


def check_projector(board, expected):
    """The points of the variable, and their names."""
    board.open("projector")
    points, width = expected["points"]

    def inside():
        board.browser.switch_to.default_content()
        for _ in range(2):
            frames = board.find("iframe")
            if frames:
                board.browser.switch_to.frame(frames[-1])
        texts = board.texts(board.browser.find_element("tag name", "body"))
        said = " ".join(texts)
        if f"Points: {points}" in said and f"Dimension: {width}" in said:
            return said
        raise ValueError(said[:300])
    try:
        said = wait("the projector's points", inside)
    finally:
        board.browser.switch_to.default_content()
    assert "hidden/w" in said and "cells.tsv" in said, said
    return f"{points} points of {width} dimensions"


CHECKS = (check_scalars, check_timeseries, check_histograms, check_distributions, check_images,
          check_audio, check_text, check_graphs, check_projector)
PICTURES = {"timeseries": "tensorboard-scalars.png", "histograms": "tensorboard-histograms.png",
            "graphs": "tensorboard-graph.png"}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--only", help="one page, as it is named in what this prints")
    parser.add_argument("--pictures", type=pathlib.Path, help="write PNGs of some pages there")
    asked = parser.parse_args()
    expected = json.loads((asked.folder / "expected.json").read_text())
    checks = [c for c in CHECKS if asked.only in (None, c.__name__.removeprefix("check_"))]
    failed = 0
    with Board(asked.folder) as board:
        for check in checks:
            page, begun = check.__name__.removeprefix("check_"), time.monotonic()
            try:
                said = check(board, expected)
                if asked.pictures and page in PICTURES:
                    asked.pictures.mkdir(parents=True, exist_ok=True)
                    board.picture(asked.pictures / PICTURES[page])
            except AssertionError as error:
                failed, said = failed + 1, f"FAILED: {error}"
            print(f"{page:14}{time.monotonic() - begun:5.1f} s  {said}", flush=True)
    print(f"{len(checks) - failed} passed, {failed} failed")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
