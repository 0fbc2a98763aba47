"""Gradients of the sweep's cases beside differences of their values.

    for name, text in wrong(cases): ...         # what is wrong with the gradient of a case, by name

Every array of floating point, fed or held, is a variable or a placeholder.  The slope of a random
weighting of the outputs, along a random direction of all of them at once, comes once from
tf.gradients and once from a central difference of width h; a second one of width h / 4, and what
differs between its sides, tell where a kink or a jump lies: there nothing can be said, and the case
is left out.  Cases are imported side by side into one graph; what one step cannot run is run one by
one."""
import numpy as np

import pyflow as tf
from pyflow.interop import onnx
from pyflow.interop.onnx.trainable import _is_setting

FLOATS = (tf.float32, tf.float64)
_WIDTH = {"float32": 2e-2, "float64": 1e-4}
_NEAR = {"float32": 2e-2, "float64": 1e-5}

_AWAY = 0.05                # the sweep's numbers lie on kinks on purpose


class Slope:
    """A case in the default graph: its arrays, outputs, and the slope along a direction."""

    def __init__(self, case, number):
        """case: (name, op, model, arrays to feed by name)."""
        self.name, op, model, given = case
        model = onnx.import_model(model, name=f"case{number}", trainable=lambda name: True)
        every = {name: (tensor, given[name]) for name, tensor in model.inputs.items()}
        every.update({name: (v.value(), v.initial_value.op.attr("value"))
                      for name, v in model.variables.items()})
        self.random = np.random.default_rng(number)
        self.at, self.fixed = {}, {}
        for name, (tensor, array) in every.items():
            if tensor.dtype.base_dtype in FLOATS and not _setting(op, name):
                finite = np.where(np.isfinite(array), array, 0.6).astype(array.dtype)
                self.at[tensor] = finite + self._like(finite) * array.dtype.type(_AWAY)
            else:
                self.fixed[tensor] = array
        self.outputs = [t for t in model.outputs.values() if t.dtype.base_dtype in FLOATS]
        self.toward = {t: self._like(a) for t, a in self.at.items()}

    def _like(self, array):
        return self.random.uniform(-1, 1, np.shape(array)).astype(np.asarray(array).dtype)

    def weigh(self, values):
        """Adds the weighted sum of the outputs, which had those values, and its slope.  Returns
        None, or what is wrong."""
        parts = [tf.reduce_sum(tf.cast(t, tf.float64) * self._like(v.astype(np.float64)))
                 for t, v in zip(self.outputs, values)]
        xs = list(self.at)
        try:
            found = tf.gradients(parts, xs)
        except Exception as error:      # any is a finding
            return f"{type(error).__name__}: {error}"
        self.total = tf.add_n(parts)
        self.connected = [x for x, g in zip(xs, found) if g is not None]
        slopes = [tf.reduce_sum(tf.cast(tf.convert_to_tensor(g), tf.float64)
                                * self.toward[x].astype(np.float64))
                  for x, g in zip(xs, found) if g is not None]
        self.slope = tf.add_n(slopes) if slopes else tf.constant(0.0, tf.float64)
        return None

    def feeds(self, width):
        """What is fed `width` along the direction."""
        made = {t: (a + np.asarray(a).dtype.type(width) * self.toward[t]).astype(a.dtype)
                for t, a in self.at.items()}
        return {**made, **self.fixed}

    @property
    def kind(self):
        """The coarsest element type."""
        types = [t.dtype.base_dtype for t in [*self.at, *self.outputs]]
        return "float32" if tf.float32 in types else "float64"


def _setting(op, name):
    """Whether an input only says how the op works: no size of the result may change."""
    place = int(name[1:]) if name[:1] in "ix" and name[1:].isdigit() else -1
    return _is_setting(op, place)


def _run(session, slopes, fetches, width):
    """[values or an exception] of fetches(slope), of all in one step if that can be."""
    feeds = {}
    for slope in slopes:
        feeds.update(slope.feeds(width))
    try:
        return session.run([fetches(s) for s in slopes], feeds)
    except (tf.errors.OpError, ValueError, TypeError):
        made = []
        for slope in slopes:
            try:
                made.append(session.run(fetches(slope), slope.feeds(width)))
            except Exception as error:      # a finding
                made.append(error)
        return made


def wrong(cases):
    """({name: text} of gradients that are wrong, {name: why} of cases that were left out).

    cases: (name, op, bytes of a model, arrays to feed by name); inputs are named i0 or x0, ..."""
    bad, left, slopes = {}, {}, []
    with tf.Graph().as_default() as graph:
        for number, case in enumerate(cases):
            try:
                slope = Slope(case, number)
            except onnx.OnnxError as error:
                left[case[0]] = f"{type(error).__name__}: {error}"
                continue
            if slope.at and slope.outputs:
                slopes.append(slope)
            else:
                left[case[0]] = "no floats in or out"
        with tf.Session(graph=graph) as session:
            ready = []
            for slope, values in zip(slopes, _run(session, slopes, lambda s: s.outputs, 0)):
                if isinstance(values, Exception):
                    left[slope.name] = str(values)
                    continue
                text = slope.weigh(values)
                if text is None:
                    ready.append(slope)
                else:
                    bad[slope.name] = text
            _compare(session, ready, bad, left)
    return bad, left


def _compare(session, slopes, bad, left):
    found = _run(session, slopes, lambda s: s.slope, 0)
    totals = {}
    for part in (0, 1, -1, 0.25, -0.25):
        for kind in _WIDTH:
            own = [s for s in slopes if s.kind == kind]
            if own:
                for s, v in zip(own, _run(session, own, lambda s: s.total, part * _WIDTH[kind])):
                    totals[s.name, part] = v
    for slope, own in zip(slopes, found):
        values = [totals[slope.name, part] for part in (1, -1, 0.25, -0.25, 0)]
        if isinstance(own, Exception):
            bad[slope.name] = f"{type(own).__name__}: {own}"
            continue
        if any(isinstance(v, Exception) for v in values) or not np.isfinite(values).all():
            left[slope.name] = "no finite value nearby"
            continue
        wide = (values[0] - values[1]) / (2 * _WIDTH[slope.kind])
        fine = (values[2] - values[3]) / (0.5 * _WIDTH[slope.kind])
        width = _WIDTH[slope.kind]
        near = _NEAR[slope.kind] * max(1, abs(fine), abs(wide)) + 1e-6 * abs(values[0]) / width
        bend = (values[2] + values[3] - 2 * values[4]) / (0.5 * width)
        if abs(wide - fine) > near or abs(bend) > 4 * near:
            left[slope.name] = f"a kink: {wide} and {fine}"
        elif not abs(own - fine) <= 2 * near:
            bad[slope.name] = f"gradient {own}, difference {fine} (and {wide})"


def _main():
    """All cases of the sweep (four minutes), and those of com.microsoft."""
    import itertools

    import sweep_cases
    import test_microsoft
    entries = test_microsoft.CASES.items()
    every = itertools.chain(
        ((c.name, c.op, c.model(), c.feeds()) for c in sweep_cases.cases(full=True)),
        ((name, e["op"], test_microsoft.model_of(e),
          {k: test_microsoft.array(a) for k, a in e["feeds"].items()}) for name, e in entries))
    count = found = 0
    for _, group in itertools.groupby(every, key=lambda case: case[1]):
        group = list(group)
        bad, left = wrong(group)
        count, found = count + len(group) - len(left), found + len(bad)
        for name, text in bad.items():
            print(f"{name}: {text}")
    print(f"{count} gradients compared, {found} differ")


if __name__ == "__main__":
    _main()
