"""Fusion of products and convolutions with what follows them, and batch norms folded into filters.

    %c = Conv2D(%x, %w)                     %z = _FusedConv2D(%x, %z/_filter, %z/_bias)
    %n = FusedBatchNormV3(%c, consts)   ->       {fused_ops: ["BiasAdd", "Relu"], num_args: 1}
    %z = Relu(%n)

A chain starts at a MatMul, Conv2D or DepthwiseConv2dNative and takes, each once and in this order,

    scale, shift   inference batch norms with constant parameters, products and sums with constant
                   vectors over the channels: folded into a constant filter and a bias
    bias           BiasAdd, or Add of a vector over the channels
    residual       Add of a tensor that has the result's shape in every step
    activation     Relu, Relu6, LeakyRelu, Elu, Sigmoid, Tanh, or the nodes that make HardSwish or
                   Swish: x * max(0, min(1, x / 6 + 1 / 2)), x * Sigmoid(x)

    a Pad of zeros before a Conv2D without padding becomes its explicit padding.

Invariants
    1. Nobody else reads, fetches or waits for a node of the chain but the last, whose name, origin
       and place the fused node takes; so gradients find all they read.
    2. Chains are fused only where the node's device has a kernel of the fused op for its type.
    3. A folded filter is computed in float64 and rounded once; otherwise results are the same bits,
       but for the sum of products, which may be in another order ("as a GEMM").
    4. Constants made here wait for what the constants behind them waited for, so they live and die,
       and turn, with them. One that would be made of nothing is not put behind a Switch or Enter.
    5. One walk in construction order and one over edges: the time is linear.

Threads: works on the caller's graph, in place.

    counts = fuse.fuse(graph, lambda: table)    # {"Conv2D + BiasAdd + Relu": 2}
"""
import collections

import numpy as np

from pyflow.framework import dtypes
from pyflow.ops.base.common import text
from pyflow.passes import fuse_gate, fuse_shapes, pure
from pyflow.passes.node import Node

FUSED = {"MatMul": "_FusedMatMul", "Conv2D": "_FusedConv2D",
         "DepthwiseConv2dNative": "_FusedDepthwiseConv2dNative"}
ACTIVATIONS = frozenset(("Relu", "Relu6", "LeakyRelu", "Elu", "Sigmoid", "Tanh"))
NORMS = frozenset(("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"))
SUMS = frozenset(("Add", "AddV2", "BiasAdd", "BiasAddV1"))
_KEPT = {"MatMul": ("transpose_a", "transpose_b", "T"),
         "Conv2D": ("T", "strides", "use_cudnn_on_gpu", "padding", "explicit_paddings",
                    "data_format", "dilations"),
         "DepthwiseConv2dNative": ("T", "strides", "padding", "data_format", "dilations")}
_FLOATS = frozenset((dtypes.float32, dtypes.float64, dtypes.float16, dtypes.bfloat16))
_FOLDED = frozenset((dtypes.float32, dtypes.float64))


def fuse(graph, kernels):
    """Fuses in place.  Returns {"Conv2D + BiasAdd + Relu": how often}.

    kernels: function without arguments that gives the KernelTable; called if there is a chain."""
    starts = [n for n in graph.nodes if n.op in FUSED]
    if not starts:
        return {}
    return dict(_Fusion(graph, kernels).run(starts))


class _Fusion:
    """One walk.  `readers`: the nodes that read each node; `held`: nodes others wait for."""

    def __init__(self, graph, kernels):
        self.graph, self._kernels, self._table = graph, kernels, None
        self.readers, self.held = collections.defaultdict(list), set()
        for node in graph.nodes:
            for source, _ in node.inputs:
                self.readers[source].append(node)
            self.held.update(node.controls)
        self.batches = fuse_shapes.Batches(graph)
        self.counts, self.gone, self.before, self.orphans = collections.Counter(), set(), {}, []
        self._conditional = None

    def run(self, starts):
        for node in starts:
            if self._can_start(node):
                self._take_padding(node)
                chain = _Chain(node, self)
                chain.grow()
                if chain.is_worth_it() and self._has_kernel(chain):
                    self._replace(chain)
        if self.before or self.gone:
            nodes = []
            for node in self.graph.nodes:
                nodes += self.before.get(node, ())
                if node not in self.gone:
                    nodes.append(node)
            self.graph.nodes = nodes
            pure.sweep(self.graph, self.orphans)
        return self.counts

    def only_reader(self, node):
        """The one node that reads `node`, once, through its first output; None if there is more
        that needs it."""
        readers = self.readers[node]
        if len(readers) != 1 or node in self.held or readers[0].device != node.device:
            return None
        reader = readers[0]
        edges = [i for s, i in reader.inputs if s is node]
        return reader if edges == [0] and reader.op != "_Retval" else None

    def others_are_read(self, node):
        """True if somebody reads another output of the node than its first."""
        return any(i for r in self.readers[node] for s, i in r.inputs if s is node)

    def is_conditional(self, node):
        """True if the node may be dead or run more than once."""
        if self._conditional is None:
            has_flow = self.graph.has_control_flow()
            self._conditional = pure.conditional(self.graph) if has_flow else ()
        return node in self._conditional

    @staticmethod
    def _can_start(node):
        if node.attrs.get("T") not in _FLOATS or len(node.inputs) != 2:
            return False
        explicit = text(node.attrs.get("padding", "")) == "EXPLICIT"
        return not (explicit and node.op == "DepthwiseConv2dNative")

    def _take_padding(self, conv):
        """Pad + Conv2D VALID: explicit padding."""
        pad = conv.inputs[0][0]
        if conv.op != "Conv2D" or pad.op != "Pad" or text(conv.attrs["padding"]) != "VALID":
            return
        if self.only_reader(pad) is not conv or pad.inputs[1][0].op != "Const":
            return
        pairs = np.asarray(pad.inputs[1][0].attrs["value"])
        axes = (0, 1) if fuse_shapes.is_nchw(conv) else (0, 3)
        if pairs.shape != (4, 2) or pairs.min() < 0 or pairs[list(axes)].any() \
                or _device_type(conv) != "CPU":
            return
        conv.attrs = {**conv.attrs, "padding": "EXPLICIT",
                      "explicit_paddings": [int(p) for p in pairs.reshape(-1)]}
        conv.inputs[0] = pad.inputs[0]
        conv.controls = list(dict.fromkeys(conv.controls + pad.controls))
        self.readers[pad.inputs[0][0]].remove(pad)
        self.readers[pad.inputs[0][0]].append(conv)
        self.gone.add(pad)
        self.orphans.append(pad.inputs[1][0])
        self.counts["Pad + Conv2D"] += 1

    def _has_kernel(self, chain):
        if self._table is None:
            self._table = self._kernels()
        op, dtype = FUSED[chain.start.op], chain.start.attrs["T"]
        found = self._table.types(Node("", op, attrs={"T": dtype}))
        return found is not None and ("*" in found or _device_type(chain.start) in found)

    def _replace(self, chain):
        """Makes the last node of the chain the fused one."""
        last, made = chain.nodes[-1], chain.constants()
        edges = chain.start.inputs[:1] + [chain.filter_edge(made)] + chain.args(made)
        self.counts[" + ".join(n.op for n in chain.nodes)] += 1
        self.orphans += [s for n in chain.nodes for s, _ in n.inputs if s not in chain.nodes]
        controls = dict.fromkeys(c for n in chain.nodes for c in n.controls)
        last.attrs = chain.attributes(len(edges) - 2)
        last.op, last.inputs, last.controls = FUSED[chain.start.op], edges, list(controls)
        last.types, last.shapes = last.types[:1], last.shapes[:1] if last.shapes else last.shapes
        self.before[last] = list(made.values())
        self.gone.update(chain.nodes[:-1])
        for source, _ in edges:             # another chain may end where this one's side comes from
            kept = [r for r in self.readers[source] if r not in chain.nodes]
            self.readers[source] = [*kept, last]


def _device_type(node):
    return node.device.rpartition("device:")[2].partition(":")[0] or "CPU"


class _Chain:
    """A product and what follows it: `nodes`; `scale`, `shift`: arrays over the channels to fold,
    `bias`, `side`: edges; `activation`: a node; `gate`: HardSwish or Swish."""

    def __init__(self, start, fusion):
        self.start, self.nodes, self._fusion = start, [start], fusion
        self.scale = self.shift = self.bias = self.side = self.activation = self.gate = None
        self.channels = fuse_shapes.channels(start)
        self._consts = []

    def grow(self):
        steps = [self._fold, self._take_bias, self._take_side, self._take_activation]
        at = 0
        while at < len(steps):
            reader = self._fusion.only_reader(self.nodes[-1])
            if reader is None:
                if self.activation is None:
                    self._take_gate()
                return
            if reader.attrs.get("T") is not self.start.attrs["T"]:
                return
            if steps[at](reader, self.nodes[-1]):
                self.nodes.append(reader)
                at += steps[at] != self._fold       # what is folded comes any number of times
            else:
                at += 1

    # ---- steps: True if the reader belongs to the chain
    def _fold(self, reader, node):
        if (self.channels is None or self.start.attrs["T"] not in _FOLDED
                or self.start.inputs[1][0].op != "Const"
                or self._fusion.others_are_read(reader)):
            return False
        found = fuse_shapes.affine(reader, node, self.start, self.channels)
        if found is None:
            return False
        scale, shift, consts = found
        if not (np.isfinite(scale).all() and np.isfinite(shift).all()):
            return False
        self.shift = shift if self.shift is None else self.shift * scale + shift
        if reader.op == "Mul" or reader.op in NORMS:
            self.scale = scale if self.scale is None else self.scale * scale
        self._consts += consts
        return True

    def _take_bias(self, reader, node):
        if reader.op not in SUMS or self.channels is None:
            return False
        edge = fuse_shapes.vector_edge(reader, node, self.start, self.channels)
        if edge is None or self.shift is not None:
            return False
        self.bias = edge
        return True

    def _take_side(self, reader, node):
        if reader.op not in ("Add", "AddV2"):
            return False
        edge = reader.inputs[1] if reader.inputs[0][0] is node else reader.inputs[0]
        if not self._fusion.batches.same_shape((node, 0), edge):
            return False
        self.side = edge
        return True

    def _take_activation(self, reader, node):
        if reader.op not in ACTIVATIONS:
            return False
        self.activation = reader
        return True

    def _take_gate(self):
        """Two readers: what gates the result, and the product with it."""
        name, nodes = fuse_gate.find(self.nodes[-1], self._fusion)
        if nodes and self.start.attrs["T"] is dtypes.float32 and _device_type(self.start) == "CPU":
            self.gate, self.nodes = name, self.nodes + nodes

    # ---- the fused node
    def is_worth_it(self):
        if len(self.nodes) == 1:
            return False
        if self.bias is not None or self.shift is not None or self.start.op == "MatMul":
            return True                         # MatMul does without a bias
        return self.channels is not None and (self.start.inputs[1][0].op == "Const"
                                              or not self._fusion.is_conditional(self.start))

    def attributes(self, args):
        start = self.start.attrs
        attrs = {k: start[k] for k in _KEPT[self.start.op] if k in start}
        attrs["num_args"] = args
        attrs["fused_ops"] = ["BiasAdd"] if args > (self.side is not None) else []
        if self.start.op == "Conv2D":
            attrs["TArgs"] = [start["T"]] * args
        if self.side is not None:
            attrs["fused_ops"].append("Add")
        if self.activation is not None:
            attrs["fused_ops"].append(self.activation.op)
            if self.activation.op == "LeakyRelu":
                attrs["leakyrelu_alpha"] = self.activation.attrs.get("alpha", 0.2)
        if self.gate is not None:
            attrs["fused_ops"].append(self.gate)
        return attrs

    def constants(self):
        """{"filter", "bias": Const nodes} the fused node needs."""
        made, dtype = {}, self.start.attrs["T"]
        if self.scale is not None:
            filter_ = self.start.inputs[1][0]
            own = (fuse_shapes.own_array(filter_)
                   if self._fusion.only_reader(filter_) is self.start else None)
            scaled = fuse_shapes.scaled_filter(self.start, filter_.attrs["value"], self.scale,
                                               self.shift, own)
            made["filter"] = self._const("_filter", scaled, dtype)
        if self.shift is not None:
            made["bias"] = self._const("_bias", self.shift, dtype)
        elif self.bias is None and self.start.op != "MatMul":
            made["bias"] = self._const("_bias", np.zeros(self.channels), dtype)
        return made

    def _const(self, name, value, dtype):
        last, filter_ = self.nodes[-1], self.start.inputs[1][0]
        behind = self._consts + ([filter_] if filter_.op == "Const" else [])
        controls = dict.fromkeys(c for n in behind for c in n.controls)
        return fuse_shapes.const(f"{last.name}/{name}", value.astype(dtype.as_numpy_dtype, copy=False),
                                 last, controls)

    def filter_edge(self, made):
        return (made["filter"], 0) if "filter" in made else self.start.inputs[1]

    def args(self, made):
        bias = (made["bias"], 0) if "bias" in made else self.bias
        return [edge for edge in (bias, self.side) if edge is not None]
