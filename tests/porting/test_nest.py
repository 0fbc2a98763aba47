"""tensorflow.python.util.nest beside the public tf.nest: answers and kinds of errors are TensorFlow 2.15's."""
import collections

import pytest

from pyflow.framework import nest

Point = collections.namedtuple("Point", "x y")

ANSWERS = [
    (lambda: nest.map_structure_up_to([0, (1,)], lambda a, b: (a, b), [1, ([2, 3],)], ["a", ("b",)]),
     [(1, "a"), (([2, 3], "b"),)]),
    (lambda: nest.map_structure_up_to(0, lambda a: a, [1, 2]), [1, 2]),
    (lambda: nest.map_structure_up_to({"b": 0, "a": 1}, str, {"a": [1], "b": 2}), {"b": "2", "a": "[1]"}),
    (lambda: nest.map_structure_up_to(Point(0, 1), lambda a: a, Point([1], {"k": 2})), Point([1], {"k": 2})),
    (lambda: nest.map_structure_up_to([0, 1], str, [1]), ValueError),
    (lambda: nest.map_structure_up_to([0, 1], str, 1), TypeError),
    (lambda: nest.map_structure_up_to([0, 1], str, (1, 2)), TypeError),
    (lambda: nest.map_structure_up_to([0, 1], str), ValueError),
    (lambda: nest.map_structure_up_to({"a": 0}, str, {"b": 0}), ValueError),
    (lambda: nest.assert_shallow_structure([0, [1]], [0, [1, 2]]), ValueError),
    (lambda: nest.assert_shallow_structure([0, [1]], [0, [[1, 2]]]), None),
    (lambda: nest.assert_shallow_structure([0, (1,)], [0, [[1, 2]]], check_types=False), None),
    (lambda: nest.assert_shallow_structure(3, [1]), None),
    (lambda: nest.flatten_dict_items({4: 5, (6, 8): ("c", "d")}), {4: 5, 6: "c", 8: "d"}),
    (lambda: nest.flatten_dict_items({(1, (2, 3)): [4, [5, 6]]}), {1: 4, 2: 5, 3: 6}),
    (lambda: nest.flatten_dict_items({(1, 2): (3, 4), 2: 5}), ValueError),
    (lambda: nest.flatten_dict_items({(1, 2): 3}), ValueError),
    (lambda: nest.flatten_dict_items([1]), TypeError),
    (lambda: nest.flatten_dict_items({1: [2, 3]}), {1: [2, 3]}),
]


@pytest.mark.parametrize("call, answer", ANSWERS)
def test_as_tensorflow(call, answer):
    if isinstance(answer, type):
        with pytest.raises(answer):
            call()
    else:
        got = call()
        assert got == answer and type(got) is type(answer)
