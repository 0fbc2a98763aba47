"""No kernel is lost or found unnoticed: what the executor has, against what was recorded."""
import pytest
from kernel_table import RECORD, _constraints, recorded_lines


@pytest.fixture(scope="module")
def recorded():
    return RECORD.read_text(encoding="utf-8").splitlines()


def test_every_op_takes_the_element_types_it_took(recorded):
    now = recorded_lines()
    lost, new = sorted(set(recorded) - set(now)), sorted(set(now) - set(recorded))
    assert not lost and not new, (
        "kernels changed.  If that was meant: python tests/ops/kernel_table.py\n"
        + "\n".join([f"- {line}" for line in lost] + [f"+ {line}" for line in new]))


def test_the_record_is_in_order(recorded):
    """One line an op, sorted: a change is one line of a diff."""
    ops = [line.partition(":")[0] for line in recorded]
    assert ops == sorted(set(ops)) and len(ops) > 600


def test_a_lost_type_is_a_changed_line():
    """What the first test compares tells types apart, in whatever order a table has them."""
    assert _constraints("T=float|double, Tidx=int32") == _constraints("Tidx=int32,T=double|float")
    assert _constraints("T=float|double") != _constraints("T=double")
