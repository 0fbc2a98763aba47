"""Python objects that nodes name by a token: what py_func calls, the gradients of custom_gradient.

Invariants
  1. The process's table holds nothing alive: a graph's library does, from the first node that names
     the object, in the graph or in one of its functions, until the graph is gone.
  2. What names a token again holds the object, too: a copied node, a function given to another
     graph, a GraphDef that is imported while the object lives.
  3. A running session holds its graph, hence whatever its steps may call.

Threads: any, under the GIL.

    table[token] = function             # found by imports and by tf.gradients while it lives
    library.hold(op.attrs)              # Graph.add_node does, for every node
"""
import weakref

ATTRIBUTES = ("token", "_gradient_op_type")     # those that name objects

table = weakref.WeakValueDictionary()


def named_by(attrs):
    """[(token, object)] of a node's native attributes, those that live."""
    found = []
    for key in ATTRIBUTES:
        token = attrs.get(key)
        kept = table.get(token) if isinstance(token, str) else None
        if kept is not None:
            found.append((token, kept))
    return found


def named_by_nodes(nodes):
    """[(token, object)] of NodeDefs, those that live."""
    if not table:
        return []
    found = []
    for node in nodes:
        tokens = {key: node.attr[key].s.decode("utf-8", "replace") for key in ATTRIBUTES
                  if key in node.attr}
        found.extend(named_by(tokens))
    return found
