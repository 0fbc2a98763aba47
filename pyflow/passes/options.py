"""The options that select rewrites, and how a ConfigProto asks for them.

    Options.of(config).arithmetic       # False with opt_level L0 or a toggle OFF

Threads: any; options do not change.
"""
import dataclasses

ON, OFF = 1, 2                          # RewriterConfig.Toggle
AGGRESSIVE = 3
L0 = -1                                 # OptimizerOptions.Level


@dataclasses.dataclass(frozen=True)
class Options:
    """Which rewrites run.  programs: all fusions, TensorFlow's "remapping"; memory:
    RewriterConfig.MemOptType; inline: calls of functions become the functions' nodes."""

    fold: bool = True
    cse: bool = True
    arithmetic: bool = True
    memory: int = 0
    programs: bool = True
    inline: bool = True

    @classmethod
    def none(cls):
        """No rewrites."""
        return cls(fold=False, cse=False, arithmetic=False, programs=False, inline=False)

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
        found = cls(fold=leveled or basic.do_constant_folding,
                    cse=leveled or basic.do_common_subexpression_elimination, arithmetic=leveled,
                    programs=leveled, inline=leveled or basic.do_function_inlining)
        asked = getattr(options, "rewrite_options", None)
        if asked is None:
            return found
        memory = int(getattr(asked, "memory_optimization", 0) or 0)
        if getattr(asked, "disable_meta_optimizer", False):
            return cls.none()
        return cls(_toggled(asked, "constant_folding", found.fold),
                   _toggled(asked, "common_subgraph_elimination", found.cse),
                   _toggled(asked, "arithmetic_optimization", found.arithmetic), memory,
                   _toggled(asked, "remapping", found.programs),
                   _toggled(asked, "function_optimization", found.inline))


def _toggled(asked, name, default):
    value = getattr(asked, name, 0)
    return True if value in (ON, AGGRESSIVE) else False if value == OFF else default
