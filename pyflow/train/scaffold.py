"""Scaffold: the pieces a training needs, each given, found in its collection, or made.

Invariant: `finalize` makes what is missing, builds the saver, and makes the graph read-only.

Thread: the one building the graph.  Source: TF 1.15 tf.train.Scaffold.

Example:  `tf.train.Scaffold(init_fn=lambda scaffold, sess: load_embeddings(sess))`
"""
from pyflow.framework import graph as ops
from pyflow.framework.graph import GraphKeys
from pyflow.lib.control_flow import grouping
from pyflow.lib.summary import summary_functions
from pyflow.lib.variables import lookup_tables, variables
from pyflow.train import saver as saver_lib


class Scaffold:
    """init_op, init_feed_dict, init_fn(scaffold, session), ready_op, ready_for_local_init_op,
    local_init_op, local_init_feed_dict, summary_op, saver; those of copy_from_scaffold where None.
    TypeError for another copy_from_scaffold. TF: tf.train.Scaffold."""

    _PARTS = ("init_op", "init_feed_dict", "ready_op", "ready_for_local_init_op", "local_init_op",
              "summary_op", "saver", "local_init_feed_dict")

    def __init__(self, init_op=None, init_feed_dict=None, init_fn=None, ready_op=None,
                 ready_for_local_init_op=None, local_init_op=None, summary_op=None, saver=None,
                 copy_from_scaffold=None, local_init_feed_dict=None):
        given = {"init_op": init_op, "init_feed_dict": init_feed_dict, "ready_op": ready_op,
                 "ready_for_local_init_op": ready_for_local_init_op,
                 "local_init_op": local_init_op, "summary_op": summary_op, "saver": saver,
                 "local_init_feed_dict": local_init_feed_dict}
        if copy_from_scaffold is not None:
            if not isinstance(copy_from_scaffold, Scaffold):
                raise TypeError("copy_from_scaffold is not a Scaffold instance.")
            for key in self._PARTS:
                if given[key] is None:
                    given[key] = getattr(copy_from_scaffold, key)
            init_fn = init_fn if init_fn is not None else copy_from_scaffold._user_init_fn
        self._given = given
        self._user_init_fn = init_fn

    def __repr__(self):
        made = [key for key in self._PARTS if self._given[key] is not None]
        return f"<tf.train.Scaffold with {', '.join(made) or 'nothing yet'}>"

    def finalize(self):
        """Makes what is missing and makes the graph read-only; returns self.

        RuntimeError where a collection holds several of what one is needed of."""
        keys = GraphKeys
        self._complete("init_op", keys.INIT_OP, lambda: grouping.group(
            variables.global_variables_initializer(),
            *ops.get_collection("saved_model_initializers")))
        self._complete("ready_op", keys.READY_OP, variables.report_uninitialized_variables)
        self._complete(
            "ready_for_local_init_op", keys.READY_FOR_LOCAL_INIT_OP,
            lambda: variables.report_uninitialized_variables(variables.global_variables()))
        self._complete("local_init_op", keys.LOCAL_INIT_OP, Scaffold.default_local_init_op)
        self._complete("summary_op", keys.SUMMARY_OP, summary_functions.merge_all)
        self._complete("saver", keys.SAVERS, lambda: saver_lib.Saver(
            sharded=True, allow_empty=True))
        self._given["saver"].build()
        ops.get_default_graph().finalize()
        return self

    def _complete(self, key, collection, make):
        if self._given[key] is None:
            self._given[key] = Scaffold.get_or_default(key, collection, make)

    @property
    def init_fn(self):
        """A function of the session, or None."""
        if self._user_init_fn is None:
            return None
        return lambda sess: self._user_init_fn(self, sess)

    @staticmethod
    def get_or_default(arg_name, collection_key, default_constructor):
        """The only item of the collection, or what the constructor makes, which joins it.

        RuntimeError for several. TF: tf.train.Scaffold.get_or_default."""
        found = ops.get_collection(collection_key)
        if len(found) > 1:
            raise RuntimeError(f'More than one item in the collection "{collection_key}". Please '
                               "indicate which one to use by passing it to the tf.Scaffold "
                               f"constructor as:  tf.Scaffold({arg_name}=item to use)")
        if found:
            return found[0]
        made = default_constructor()
        if made is not None:
            ops.add_to_collection(collection_key, made)
        return made

    @staticmethod
    def default_local_init_op():
        """Initialises local variables and tables. TF: tf.train.Scaffold.default_local_init_op."""
        return grouping.group(variables.local_variables_initializer(),
                              lookup_tables.tables_initializer())


def _part(key):
    return property(lambda self: self._given[key], doc=f"The {key}; None before it is made.")


for _key in Scaffold._PARTS:
    setattr(Scaffold, _key, _part(_key))

PUBLIC = {"train.Scaffold": Scaffold}
