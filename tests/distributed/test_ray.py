"""The launcher on Ray: nodes are lost and frozen, by `ray.cluster_utils.Cluster` in a network
namespace of its own (ray_nodes.py).  `long.py ray-tests` installs ray and runs these."""
import json
import sys

import pytest

import ray_nodes
from pyflow.distributed.launch import ray as on_ray


def test_without_ray_it_says_what_to_install(monkeypatch, capsys):
    from pyflow.tools import command
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ImportError, match="pip install ray grpcio"):
        on_ray.RayCluster(["true"], {"worker": 1})
    assert command.main(["launch", "--on", "ray", "true"]) == 2
    assert "pip install ray grpcio" in capsys.readouterr().err


def run(case, folder):
    """What ray_nodes.py prints of a case."""
    if reason := ray_nodes.reason_to_skip():
        pytest.skip(reason)
    done = ray_nodes.alone(case, folder)
    found = [line for line in done.stdout.splitlines() if line.startswith("{")]
    assert done.returncode == 0 and found, done.stdout[-3000:] + done.stderr[-5000:]
    print(case, found[0])
    return json.loads(found[0])


@pytest.mark.long
@pytest.mark.parametrize("case, seconds", [
    ("lose worker", 10), ("lose ps", 10), ("lose worker with defaults", 25)])
def test_a_node_that_is_lost_while_it_trains(case, seconds, tmp_path):
    """From the loss to the next step, with our head's health checks and with Ray's own."""
    found = run(case, tmp_path)
    assert found["status"] == 0 and found["seconds"] <= seconds
    assert found["newest"] == ([60, 1] if "ps" in case else [60, 2])
    assert found["moved"] and found["others"] == [1, 1]     # the others stay as they are


@pytest.mark.long
def test_servers_whose_nodes_are_lost_end_with_the_same_bits(tmp_path):
    found = run("servers", tmp_path)
    undisturbed, disturbed = found["ends"]
    assert undisturbed[0] == 0 and undisturbed == disturbed and "sha256 " in undisturbed[1]
    assert max(found["seconds"]) <= 10      # from the loss to the next step


@pytest.mark.long
def test_without_a_spare_node_the_job_shrinks(tmp_path):
    assert run("shrink", tmp_path) == {"status": 0, "state": "gone", "epoch": 1, "newest": [150, 1]}


@pytest.mark.long
@pytest.mark.parametrize("what", ["process", "actor", "node"])
def test_what_is_frozen_is_replaced_and_writes_nothing_afterwards(what, tmp_path):
    found = run(f"freeze {what}", tmp_path)
    assert found["status"] == 0 and found["newest"] == [100, 2] and found["epochs"] == [2]
    assert found["thawed"] >= (3 if what == "node" else 0)      # raylet, actor, process, ...
    assert found["seconds"] <= 10


@pytest.mark.long
def test_a_driver_counts_on_where_the_one_before_it_was_lost(tmp_path):
    assert run("again", tmp_path) == {"status": 0, "epochs": [2, 2, 2]}


@pytest.mark.long
def test_the_command(tmp_path):
    found = run("command", tmp_path)
    assert found["status"] == 0 and found["newest"] == [8, 1]
    assert found["lines"] == ["[ps-0] begins ps-0 1", "[worker-0] begins worker-0 1",
                              "[worker-0] end", "[worker-1] begins worker-1 1"]
