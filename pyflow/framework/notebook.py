"""What a notebook shows of graphs, tensors and traced steps: HTML for `_repr_html_`.

Invariants
1. Every name, value and line out of a program is escaped: a graph may come from anywhere.
2. The size is bounded, whatever is shown: LISTED operations, DRAWN in a picture, BARS of a step,
   VALUE characters of a value.
3. Looking changes nothing: no operation is added, and what is read can still be fed.

Threads: any, like readers of graphs.  Callers: Graph, Tensor, RunMetadata; session/notebook.py.

    IPython.display.HTML(graph_html(tf.get_default_graph()))
"""
import collections
import html

import numpy as np

LISTED, DRAWN, BARS, VALUE = 200, 30, 20, 400
_TYPES, _ENDS = 12, 10              # rows of a graph's tables
_CELL = "text-align: left; vertical-align: top"
_BOX, _HIGH, _GAP_X, _GAP_Y = 130, 34, 14, 30       # of a drawn graph, pixels


def table(rows, head=()):
    """Rows of cells, escaped; head: titles of the columns."""
    lines = []
    if head:
        lines.append("".join(f'<th style="{_CELL}">{html.escape(str(c))}</th>' for c in head))
    lines += ["".join(f'<td style="{_CELL}">{html.escape(str(c))}</td>' for c in row) for row in rows]
    return "<table>" + "".join(f"<tr>{line}</tr>" for line in lines) + "</table>"


def titled(text):
    """A line above what follows."""
    return f"<div><b>{html.escape(text)}</b></div>"


def folded(title, content):
    """`content`, HTML, shown when its title is clicked."""
    return f"<details><summary>{html.escape(title)}</summary>{content}</details>"


# ---------------------------------------------------------------- graphs

def graph_html(graph):
    """Counts by type, inputs, outputs, a picture of a small graph, a folded list."""
    ops = graph.get_operations()
    counts = collections.Counter(op.type for op in ops).most_common()
    types = ", ".join(f"{n} {kind}" for kind, n in counts[:_TYPES])
    more = len(counts) - _TYPES
    parts = [titled(f"Graph of {len(ops)} operations"),
             table([("types", types + (f" and {more} types more" if more > 0 else "")),
                    ("inputs", _ends(op for op in ops if op.type.startswith("Placeholder"))),
                    ("outputs", _ends(op for op in ops if _is_end(op)))])]
    if 0 < len(ops) <= DRAWN:
        parts.append(drawn(ops))
    if ops:
        rows = [(op.name, op.type, ", ".join(map(_kind, op.outputs)), op.user_frame)
                for op in ops[:LISTED]]
        title = f"the first {LISTED} operations" if len(ops) > LISTED else "operations"
        parts.append(folded(title, table(rows, ("name", "op", "outputs", "made at"))))
    return "".join(parts)


def _is_end(op):
    return bool(op.outputs) and op.type != "Const" and not any(t.consumers() for t in op.outputs)


def _ends(ops):
    ops = list(ops)
    shown = ", ".join(f"{op.name} {_kind(op.outputs[0])}" for op in ops[:_ENDS] if op.outputs)
    return (shown or "none") + (f" and {len(ops) - _ENDS} more" if len(ops) > _ENDS else "")


def _kind(tensor):
    return f"{tensor.dtype.name}{tensor.shape}"


def drawn(ops):
    """An SVG: operations from top to bottom, what an operation reads above it."""
    rows = {}
    for op, row in _rows(ops).items():
        rows.setdefault(row, []).append(op)
    places = {op: (column * (_BOX + _GAP_X), row * (_HIGH + _GAP_Y))
              for row, members in rows.items() for column, op in enumerate(members)}
    wide = max(x for x, _ in places.values()) + _BOX + 2
    high = max(y for _, y in places.values()) + _HIGH + 2
    lines = [_line(places[source], places[op], dashed)
             for op in ops for source, dashed in _sources(op) if source in places]
    boxes = [_box(op, *place) for op, place in places.items()]
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide}" height="{high}" '
            f'viewBox="-1 -1 {wide} {high}" font-family="monospace" font-size="11">'
            + "".join(lines + boxes) + "</svg>")


def _rows(ops):
    """{operation: how many stand above it on the longest way}; a loop's way back counts not."""
    found = {}
    for op in ops:              # what it reads was made before it, but for a loop's way back
        above = [found[source] for source, _ in _sources(op) if source in found]
        found[op] = max(above, default=-1) + 1
    return found


def _sources(op):
    yield from ((tensor.op, False) for tensor in op.inputs)
    yield from ((source, True) for source in op.control_inputs)


def _line(begin, end, dashed):
    style = ' stroke-dasharray="4"' if dashed else ""
    return (f'<line x1="{begin[0] + _BOX // 2}" y1="{begin[1] + _HIGH}" x2="{end[0] + _BOX // 2}" '
            f'y2="{end[1]}" stroke="#888"{style}/>')


def _box(op, x, y):
    return (f'<g><title>{html.escape(f"{op.name}: {op.type}, made at {op.user_frame}")}</title>'
            f'<rect x="{x}" y="{y}" width="{_BOX}" height="{_HIGH}" rx="5" fill="#eef" '
            f'stroke="#66a"/><text x="{x + 6}" y="{y + 14}" fill="#000">{_short(op.name)}</text>'
            f'<text x="{x + 6}" y="{y + 28}" fill="#555">{_short(op.type)}</text></g>')


def _short(text, most=17):
    return html.escape(text if len(text) <= most else "..." + text[3 - most:])


# ---------------------------------------------------------------- tensors

def tensor_html(tensor):
    """What is known of a tensor before anything runs."""
    from pyflow.framework import static_value
    op = tensor.op
    rows = [("dtype", tensor.dtype.name), ("shape", tensor.shape), ("op", op.type),
            ("inputs", ", ".join(x.name for x in op.inputs) or "none"), ("made at", op.user_frame)]
    if tensor.device:
        rows.append(("device", tensor.device))
    value = static_value.peek(tensor)
    if value is not None:
        rows.append(("value", _value(value)))
    return titled(f"Tensor {tensor.name}") + table(rows)


def _value(value):
    text = np.array2string(np.asarray(value), threshold=40, edgeitems=3, max_line_width=80)
    return text if len(text) <= VALUE else text[:VALUE] + " ..."


# ---------------------------------------------------------------- traced steps

def step_html(step_stats):
    """A bar for each of the kernels of a traced step that took longest, device by device."""
    parts = []
    for device in step_stats.dev_stats:
        nodes = sorted(device.node_stats, key=lambda n: -n.all_end_rel_micros)
        begin = min((n.all_start_micros for n in nodes), default=0)
        whole = max((n.all_start_micros + n.all_end_rel_micros - begin for n in nodes), default=0)
        parts.append(titled(f"{device.device}: {len(nodes)} kernels in {whole / 1000:.3f} ms"))
        shown = sorted(nodes[:BARS], key=lambda n: n.all_start_micros)
        parts.append(bars([(n.timeline_label or n.node_name, n.all_start_micros - begin,
                            n.all_end_rel_micros) for n in shown], whole))
        if len(nodes) > BARS:
            parts.append(f"<div>and {len(nodes) - BARS} shorter ones</div>")
    return "".join(parts)


def bars(rows, whole):
    """[(label, when it began, how long it took)] in microseconds, beside one another in time."""
    lines = []
    for label, begin, took in rows:
        left, wide = 100 * begin / max(1, whole), max(0.5, 100 * took / max(1, whole))
        lines.append(
            f'<tr><td style="{_CELL}"><code>{html.escape(label[:80])}</code></td>'
            f'<td style="{_CELL}">{took} us</td><td style="width: 20em"><div style="margin-left: '
            f'{min(left, 99.5):.1f}%; width: {min(wide, 100 - min(left, 99.5)):.1f}%; height: 0.8em;'
            f' background: #66a"></div></td></tr>')
    return f"<table>{''.join(lines)}</table>"
