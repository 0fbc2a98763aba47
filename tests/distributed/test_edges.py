"""The table of edges beside a plan: what a key stands for is known without reading names."""
from pyflow.distributed.look import edges
from pyflow.framework import dtypes
from pyflow.passes import partition_split
from pyflow.passes.node import Graph, Node

A, B = (f"/job:{job}/replica:0/task:0/device:CPU:0" for job in "ab")
OWN = ("/job:a/replica:0/task:0", "/job:b/replica:0/task:0")


def split(narrow=None):
    """A graph whose node names look like those that passes make; narrow: as of split()."""
    x = Node("x/_part_send_7;edge_1_y:0;:0", "Const", device=A, types=(dtypes.float32,),
             attrs={"dtype": dtypes.float32, "value": None})
    y = Node("y", "Relu", [(x, 0)], device=B, types=(dtypes.float32,), attrs={"T": dtypes.float32})
    return partition_split.split(Graph([x, y]), "task", incarnation=lambda device: -1,
                                 narrow=narrow)


def table_of(parts):
    table = {}
    for part in parts:
        edges.add(table, part.graph.nodes)
    return table


def key_of(parts):
    send = next(n for n in parts[0].graph.nodes if n.edge is not None)
    name = send.attrs["tensor_name"]
    return f"{A};ffffffffffffffff;{B};{name};", send


def test_a_key_is_found_whatever_nodes_are_called():
    parts = split()
    start, send = key_of(parts)
    found = edges.of_key(table_of(parts), start + "while;odd/frame:12")
    assert (found.source, found.destination) == OWN and found.frame == "while;odd/frame"
    assert found.edge.tensor == "x/_part_send_7;edge_1_y:0;:0:0" and found.edge.dtype == "float32"
    assert found.edge.send == send.name and not found.edge.narrowed
    assert edges.of_key(table_of(parts), start + ":0").frame == ""
    assert edges.of_key(table_of(parts), "a;b;c") is None


def test_what_is_narrowed_is_known_as_it_is_in_the_graph():
    parts = split(lambda source, destination: True)
    edge = next(iter(table_of(parts).values())).edge
    assert edge.narrowed and edge.tensor == "x/_part_send_7;edge_1_y:0;:0:0"
    assert edge.dtype == "float32"


def test_one_half_is_enough():
    """Its Send is missing from the plan: who waits for it is told what is not sent."""
    parts = split()
    whole, half = table_of(parts), {}
    edges.add(half, parts[1].graph.nodes)
    assert half == whole and len(half) == 1
