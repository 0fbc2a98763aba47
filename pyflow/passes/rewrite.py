"""The rewrites between placement and partition, in order, and the options that select them.

    folded       [fold.fold]            what is constant becomes a Const
    cse          [cse.merge_equal]      of equal nodes the first one stays
    arithmetic   [arithmetic.simplify]  nodes that give an input go, costly ones become cheap
    fused        [fuse.fuse]            products with bias, residual sum and activation become one
    moments      [fuse_moments.fuse]    mean and variance are read off once; layer norms become one
    programs     [fuse_elementwise.fuse] chains of element-wise nodes become one; all three after
                                         recomputation and swapping, which know nodes by their ops

Placement is over, so no constraint is lost with a node; Send and Receive are not there yet.

Invariants
    1. What has an effect, draws random numbers, or calls Python runs as often as before, and in an
       order that the control and data edges between such nodes still give.
    2. Fetched and fed tensors keep their values within the tolerances of passes/arithmetic.py.
       Errors of nodes that went do not occur; those of other nodes name the same node and line.
    3. Where nothing is to be done the graph is walked three times and nothing is copied.

Threads: a graph belongs to the thread that compiles it.

    counts = rewrite.rewrite(graph, Options.of(config), evaluate)
"""
from pyflow.passes import arithmetic, cse, fold, fuse as products, fuse_elementwise, fuse_moments

ON, OFF = 1, 2                          # RewriterConfig.Toggle
AGGRESSIVE = 3
L0 = -1                                 # OptimizerOptions.Level


class Options:
    """Which rewrites run: `fold`, `cse`, `arithmetic`, `programs` (all fusions, TensorFlow's
    "remapping"); `memory`: RewriterConfig.MemOptType."""

    __slots__ = ("fold", "cse", "arithmetic", "memory", "programs")

    def __init__(self, fold=True, cse=True, arithmetic=True, memory=0, programs=True):
        self.fold, self.cse, self.arithmetic = fold, cse, arithmetic
        self.memory, self.programs = memory, programs

    @classmethod
    def none(cls):
        """No rewrites."""
        return cls(False, False, False, programs=False)

    @classmethod
    def of(cls, config):
        """What a tf.ConfigProto (or None) asks for; all by default, as in TF 1.x.

        OptimizerOptions.opt_level L0 turns off what it does not ask for by name;
        RewriterConfig.disable_meta_optimizer turns off all, its toggles one each.
        """
        options = getattr(config, "graph_options", None)
        if options is None:
            return cls()
        basic = options.optimizer_options
        leveled = basic.opt_level != L0
        found = cls(leveled or basic.do_constant_folding,
                    leveled or basic.do_common_subexpression_elimination, leveled,
                    programs=leveled)
        asked = getattr(options, "rewrite_options", None)
        if asked is None:
            return found
        found.memory = int(getattr(asked, "memory_optimization", 0) or 0)
        if getattr(asked, "disable_meta_optimizer", False):
            return cls.none()
        found.fold = _toggled(asked, "constant_folding", found.fold)
        found.cse = _toggled(asked, "common_subgraph_elimination", found.cse)
        found.arithmetic = _toggled(asked, "arithmetic_optimization", found.arithmetic)
        found.programs = _toggled(asked, "remapping", found.programs)
        return found


def _toggled(asked, name, default):
    value = getattr(asked, name, 0)
    return True if value in (ON, AGGRESSIVE) else False if value == OFF else default


def rewrite(graph, options, evaluate, dump=None):
    """Rewrites in place.  Returns {pass: number of nodes, or {rule: number}} of what was done.

    evaluate: as in `fold.fold`.  dump(pass name, graph): called after each pass that is on.
    """
    counts = {}
    for name, wanted, work in (("folded", options.fold, lambda: fold.fold(graph, evaluate)),
                               ("cse", options.cse, lambda: cse.merge_equal(graph)),
                               ("arithmetic", options.arithmetic,
                                lambda: arithmetic.simplify(graph))):
        if wanted:
            counts[name] = work()
            if dump:
                dump(name, graph)
    return counts


def fuse(graph, options, dump=None, kernels=None):
    """The last rewrites, after recomputation and swapping: products take what follows them, moments
    and layer norms become one node, then element-wise nodes become programs.

    kernels: as in `fuse.fuse`; None: no products.  Returns {"fused": {chain: number}, "moments":
    {kind: number} where there are any, "programs": {op type: nodes}}, or {} if all are off."""
    counts = {}
    if options.programs and kernels is not None:
        counts["fused"] = products.fuse(graph, kernels)
        if dump:
            dump("fused", graph)
    if options.programs:
        found = fuse_moments.fuse(graph)
        if found:
            counts["moments"] = found
            if dump:
                dump("moments", graph)
        counts["programs"] = fuse_elementwise.fuse(graph)
        if dump:
            dump("programs", graph)
    return counts


def report(counts):
    """One line per pass: what it did."""
    lines = []
    for name, found in counts.items():
        if isinstance(found, dict):
            parts = [f"{n} {rule}" for rule, n in sorted(found.items())]
            found = f"{sum(found.values())} ({', '.join(parts)})" if parts else "0"
        lines.append(f"{name}: {found}")
    return "\n".join(lines)
