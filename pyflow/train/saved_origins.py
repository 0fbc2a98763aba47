"""Where operations were made, kept through saving: a collection of the MetaGraphDef.

Each item of the collection is `file <tab> line <tab> function` followed by the names of the nodes
made there, separated by tabs.  Importing gives the nodes these places back, so that an error in a
restored graph names the line that built it; the line that imported it follows in the trace.

Invariant: unknown or malformed items are ignored; TensorFlow ignores the collection as a whole.
"""
COLLECTION = "pyflow.origins"


class SavedPlace:
    """Stands for a code object in an origin (framework/origin.py): one line of a program that may
    have run elsewhere."""

    __slots__ = ("co_filename", "co_firstlineno", "co_name")

    def __init__(self, filename, line, function):
        self.co_filename, self.co_firstlineno, self.co_name = filename, line, function

    def co_lines(self):
        """No table: the line is the first line."""
        return ()


def items_of(operations):
    """The collection's items (bytes) for these operations."""
    by_place = {}
    for op in operations:
        frame = op.user_frame
        by_place.setdefault((frame.filename, frame.lineno, frame.function), []).append(op.name)
    return ["\t".join([file, str(line), function, *names]).encode("utf-8", "surrogateescape")
            for (file, line, function), names in by_place.items()]


def restore(graph, items, scope=""):
    """Gives operations of `graph` the places that `items` name."""
    prefix = scope + "/" if scope else ""
    for item in items:
        words = item.decode("utf-8", "surrogateescape").split("\t")
        if len(words) < 4 or not words[1].isdigit():
            continue
        place = SavedPlace(words[0], int(words[1]), words[2])
        for name in words[3:]:
            op = graph._nodes_by_name.get(prefix + name)
            if op is not None:
                op.origin = (place, 0) + op.origin
