"""What a notebook shows of graphs, tensors, sessions and traced steps."""
import gc
import html.parser
import re

import pyflow as tf
from pyflow.framework import notebook


class Page(html.parser.HTMLParser):
    """Tags have to be closed in order; what is said, and how often each tag is there."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.said = [], [], []
        self.feed(text)
        self.close()
        assert not self.open, self.open
        self.text = " ".join(" ".join(self.said).split())

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.said.append(data)


ALLOWED = {"div", "b", "table", "tr", "th", "td", "details", "summary", "svg", "line", "g", "title",
           "rect", "text", "code"}


def shown(what):
    page = Page(what._repr_html_())
    assert set(page.tags) <= ALLOWED
    return page


def test_a_small_graph_is_drawn():
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [None, 3], name="x")
        w = tf.constant([[1.0], [2.0], [3.0]], name="w")
        with tf.control_dependencies([tf.no_op(name="first")]):
            tf.matmul(x, w, name="y")
        page = shown(graph)
    assert page.text.startswith("Graph of 4 operations types 1 Placeholder, 1 Const, 1 NoOp, 1 MatMul")
    assert "inputs x float32(?, 3) outputs y float32(?, 1)" in page.text
    assert page.tags.count("rect") == 4 and page.tags.count("line") == 3
    assert "test_notebook.py:" in page.text and page.tags.count("details") == 1
    heights = dict(re.findall(r'y="(\d+)" fill="#000">(\w+)<', graph._repr_html_())[k][::-1]
                   for k in range(4))
    assert heights["x"] == heights["w"] == heights["first"] and int(heights["y"]) > int(heights["x"])


def test_a_large_graph_and_loops_are_bounded():
    with tf.Graph().as_default() as graph:
        i = tf.while_loop(lambda i: i < 3, lambda i: i + 1, [tf.constant(0)])
        assert "svg" in shown(graph).tags           # a loop's way back is drawn, too
        for _ in range(300):
            i = i + 1
        page = shown(graph)
    assert "svg" not in page.tags and page.tags.count("tr") == 3 + 1 + notebook.LISTED
    assert len(graph._repr_html_()) < 100_000
    assert shown(tf.Graph()).text.startswith("Graph of 0 operations")


def test_names_and_values_are_text_and_no_html():
    """Of a graph that somebody else made."""
    bad = "<script>alert(1)</script>"
    with tf.Graph().as_default() as graph:
        x = tf.constant([bad, "&amp;\"'"], name="a")
        for op in graph.get_operations():
            op.name = bad              # no name of ours, but a reader has to stand it
        for what in (graph, x):
            page = shown(what)
            assert "script" not in page.tags and bad in page.text
        assert 'onerror="' not in Page(notebook.table([('"><img onerror="x">', 1)])).tags


def test_a_tensor_says_what_is_known():
    with tf.Graph().as_default() as graph:
        with tf.device("/cpu:0"):
            x = tf.placeholder_with_default(tf.constant([1.5, 2.5]), [None], name="x")
        c = tf.constant(2, name="c") * 3
        page = shown(c)
        assert page.text.startswith("Tensor mul:0 dtype int32 shape () op Mul inputs c:0, mul/y:0")
        assert page.text.endswith("value 6") and "test_notebook.py" in page.text
        assert graph.is_feedable(c) and graph.is_feedable(c.op.inputs[0])
        page = shown(x)
        assert "device /device:CPU:0" in page.text and "value" not in page.text
        large = tf.zeros([1000, 1000]) + 0.0
        assert len(shown(large).text) < 1000


def test_a_session_shows_its_steps_and_the_last_traced_one():
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [2, 2], name="x")
        y = tf.matmul(x, x, name="y")
        with tf.Session() as sess:
            assert "fetches" not in shown(sess).text
            feed = {x: [[1, 2], [3, 4]]}
            sess.run(y, feed)
            sess.run({"both": [y, y.op]}, feed)
            text = shown(sess).text
            assert "2 steps, the newest first" in text and re.search(r"y:0, y x:0 \d at most", text)
            assert "traced" not in text
            told = tf.RunMetadata()
            assert told._repr_html_() is None
            sess.run(y, feed, tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE), told)
            for page in (shown(sess), shown(told)):
                assert re.search(r"device:CPU:0: \d kernels in [\d.]+ ms", page.text)
                assert "y = MatMul(" in page.text
            assert "the last traced step: y:0" in shown(sess).text
            del told
            gc.collect()
            assert "traced" not in shown(sess).text         # it holds nothing of it
        assert "closed" in shown(sess).text


def test_many_kernels_and_many_steps_are_cut():
    with tf.Graph().as_default(), tf.Session() as sess:
        x = tf.placeholder(tf.float32, [])
        values = [tf.tan(x + float(k)) for k in range(40)]
        told = tf.RunMetadata()
        sess.run(values, {x: 1.0}, tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE), told)
        assert re.search(r"and \d+ shorter ones", shown(told).text)
        for value in values:
            sess.run(value, {x: 1.0})
        assert "41 steps, the last 10 that were new" in shown(sess).text
