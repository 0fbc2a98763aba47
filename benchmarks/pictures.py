"""README's two pictures, as SVG: what lies on what, and how fast it is beside its peers.

    python benchmarks/pictures.py docs/images           # writes architecture.svg and speed.svg

The chart's figures are those kept in benchmarks/results; the picture names folders of the tree.  A
test draws both again and compares (tests/users/test_pictures.py).  Measures nothing itself.
"""
import html
import json
import math
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
INK, GREY, LINE = "#1f2937", "#6b7280", "#d1d5db"
FONT = "font-family=\"Helvetica, Arial, sans-serif\""

# ---------------------------------------------------------------- what lies on what

# Floors from the top: (title, colour, boxes); a box: (title, folders or files, what it does).
FLOORS = [
    ("your program", "#eef2ff", [
        ("import pyflow as tf", (), "the TensorFlow 1.x graph API"),
        ("import tensorflow", ("pyflow/interop/tensorflow",), "unchanged programs, by pyflow exec"),
        ("ONNX, GraphDef, SavedModel", ("pyflow/interop/onnx", "pyflow/saved_model"),
         "models from elsewhere")]),
    ("Python: builds graphs", "#ecfdf5", [
        ("graphs", ("pyflow/framework", "pyflow/ops", "pyflow/lib"), "a block an op; the library"),
        ("training", ("pyflow/gradients", "pyflow/train", "pyflow/estimator"),
         "gradients, optimisers, savers"),
        ("rewrites, placement", ("pyflow/passes",), "graph in, graph out"),
        ("sessions, clusters", ("pyflow/session", "pyflow/distributed"),
         "plans; masters and workers")]),
    ("executor: Cython and C, no Python, no GIL", "#fff7ed", [
        ("compiles", ("_executor/core/graph", "_executor/core/plan"),
         "frames, blocks, buffers"),
        ("runs", ("_executor/core/step",), "queues, tags, dead tokens"),
        ("hosts", ("_executor/core/host", "_executor/core/values"), "devices, state, rendezvous"),
        ("talks", ("_executor/core/net",), "frames between tasks")]),
    ("a stable C ABI, 1.x: it only grows", "#fef2f2", [
        ("kernels, devices", ("include/pyflow/kernel.h",), "a plugin is a wheel, built once"),
        ("links", ("include/pyflow/link.h",), "bytes between tasks"),
        ("without Python", ("include/pyflow/runtime.h",), "libpyflow_rt.so runs frozen graphs")]),
    ("plugins", "#f5f3ff", [
        ("CPU", ("plugins/cpu",), "SSE2, AVX2, AVX-512"),
        ("NVIDIA", ("plugins/cuda",), "GPUs"),
        ("yours", ("examples/plugin_hello", "examples/plugin_accelerator"),
         "30 lines of C and pip install"),
        ("links", ("plugins/net", "plugins/grpc"), "shared memory, TCP, gRPC")]),
]


def architecture():
    """The picture's text."""
    width, gap, left = 860, 14, 14
    parts, y = [], 14
    for title, colour, boxes in FLOORS:
        high = 80 + 15 * max(len(places) for _, places, _ in boxes)
        parts.append(f'<rect x="{left}" y="{y}" width="{width - 2 * left}" height="{high}" rx="8" '
                     f'fill="{colour}" stroke="{LINE}"/>')
        parts.append(f'<text x="{left + 12}" y="{y + 19}" font-weight="bold" fill="{INK}">'
                     f'{html.escape(title)}</text>')
        wide = (width - 2 * left - gap * (len(boxes) + 1)) / len(boxes)
        for n, box in enumerate(boxes):
            parts += _box(left + gap + n * (wide + gap), y + 28, wide, high - 38, *box)
        y += high + 10
    return _svg(width, y + 4, parts)


def _box(x, y, wide, high, title, places, does):
    yield (f'<rect x="{x:.1f}" y="{y}" width="{wide:.1f}" height="{high}" rx="5" fill="white" '
           f'stroke="{LINE}"/>')
    yield (f'<text x="{x + 9:.1f}" y="{y + 17}" font-weight="bold" fill="{INK}">'
           f'{html.escape(title)}</text>')
    yield f'<text x="{x + 9:.1f}" y="{y + 34}" fill="{GREY}">{html.escape(does)}</text>'
    for n, place in enumerate(places):
        yield (f'<text x="{x + 9:.1f}" y="{y + 51 + 15 * n}" font-size="11" '
               f'font-family="monospace" fill="#1d4ed8">{html.escape(place)}</text>')


# ---------------------------------------------------------------- how fast

def _case(name, day="2026-11-22"):
    return lambda: _record(day)["cases"][name]["seconds"]


def _of_row(file, row, ours, theirs):
    def found():
        [entry] = [r for r in _record(file)["rows"] if r["row"] == row]
        return {"pyflow": entry[ours], "tf": entry[theirs]}
    return found


def _of_link(row):
    return lambda: {peer: _record("distributed")["seconds"][f"{row} {peer}"]
                    for peer in ("pyflow", "tf")}


def _record(name):
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


# (what is done, where its seconds are from); TensorFlow: the faster of its two executors.
WORK = [
    ("10,000 scalar adds in a chain", _case("add_chain")),
    ("session.run of one add", _case("one_add_run")),
    ("while_loop, 10x10 matmul", _case("while_matmul")),
    ("gradient of a while_loop", _case("while_gradient")),
    ("training step: softmax regression", _case("train_softmax")),
    ("training step: MLP 784-100-10", _case("train_mlp")),
    ("training step: LeNet", _case("train_lenet")),
    ("training step: PTB-small LSTM", _case("train_ptb")),
    ("FIFO queue: enqueue and dequeue", _of_row("queues", "pair_fifo", "pyflow_us", "tf_us")),
    ("two processes: an empty step", _of_link("null")),
    ("two processes: a number across", _of_link("scalar")),
    ("two processes: 100 MB across", _of_link("100 MB")),
]


def ratios():
    """[(work, TensorFlow's time by pyflow's, torch's by pyflow's or None)]."""
    rows = []
    for name, source in WORK:
        seconds = source()
        tf = min(seconds[p] for p in ("tf", "tf_single") if p in seconds)
        torch = seconds.get("torch")
        rows.append((name, tf / seconds["pyflow"], torch and torch / seconds["pyflow"]))
    return rows


def speed():
    """The chart's text: a bar a row, on a logarithmic axis from 1 to 100."""
    rows = ratios()
    width, row, top, left, right = 860, 26, 46, 270, 30
    most = 10 ** math.ceil(math.log10(max(max(r[1], r[2] or 1) for r in rows)))

    def at(ratio):
        return left + (width - left - right) * math.log(max(ratio, 1)) / math.log(most)
    height = top + row * len(rows) + 30
    parts = [f'<text x="{left}" y="18" font-weight="bold" fill="{INK}">how many times as long the '
             f'peer takes; one thread</text>']
    for n, (colour, text) in enumerate((("#2563eb", "TensorFlow 2.21"), ("#ea580c", "torch 2.13"))):
        x = left + 160 * n
        parts.append(f'<rect x="{x}" y="27" width="10" height="10" fill="{colour}"/>'
                     f'<text x="{x + 16}" y="36" fill="{INK}">{text}</text>')
    for power in range(round(math.log10(most)) + 1):
        x = at(10 ** power)
        parts.append(f'<path d="M{x:.1f} {top}V{height - 26}" stroke="{LINE}"/><text x="{x:.1f}" '
                     f'y="{height - 10}" text-anchor="middle" fill="{GREY}">{10 ** power}</text>')
    for n, (name, tf, torch) in enumerate(rows):
        y = top + row * n
        parts.append(f'<text x="{left - 10}" y="{y + 17}" text-anchor="end" fill="{INK}">'
                     f'{html.escape(name)}</text>')
        bars = [(tf, "#2563eb")] + ([(torch, "#ea580c")] if torch else [])
        for k, (ratio, colour) in enumerate(bars):
            parts.append(f'<rect x="{left}" y="{y + 4 + 9 * k}" width="{at(ratio) - left:.1f}" '
                         f'height="8" fill="{colour}"/><text x="{at(ratio) + 5:.1f}" '
                         f'y="{y + 12 + 9 * k}" font-size="9" fill="{GREY}">{ratio:.3g}</text>')
    return _svg(width, height, parts)


def _svg(width, height, parts):
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
                      f'viewBox="0 0 {width} {height}" {FONT} font-size="12">',
                      f'<rect width="{width}" height="{height}" fill="white"/>', *parts, "</svg>",
                      ""])


PICTURES = {"architecture.svg": architecture, "speed.svg": speed}

if __name__ == "__main__":
    for name, draw in PICTURES.items():
        (pathlib.Path(sys.argv[1]) / name).write_text(draw(), encoding="utf-8")
