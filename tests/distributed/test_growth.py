"""What `long.py soak-dist` calls growth."""
import random

import pytest

import growth

FLAT = {**dict.fromkeys(growth.FLAT, 20), "objects": 50000, "heap": 36 << 20, "rss": 75 << 20,
        "kinds": {"MainThread": 1}}


def samples(**lost):
    """Ten looks at one process, with what malloc's noise is; lost: {count: per step}."""
    rng, found = random.Random(1), []
    for step in range(100000, 1000001, 100000):
        counts = {name: n if name == "kinds" else n + round(lost.get(name, 0) * (step - 100000))
                  for name, n in FLAT.items()}
        counts["heap"] += rng.randrange(100000)
        counts["rss"] += rng.randrange(300000)
        found.append((step, {"ps 0": counts}))
    return found


def test_noise_is_no_growth():
    assert growth.grown(samples()) == []


@pytest.mark.parametrize("name, lost", [("heap", 2), ("rss", 4), ("objects", 0.02)])
def test_a_little_per_step_is_growth(name, lost):
    (found,) = growth.grown(samples(**{name: lost}))
    assert found.startswith(f"ps 0's {name}: +")


@pytest.mark.parametrize("name", growth.FLAT)
def test_one_more_is_growth_of_what_is_flat(name):
    found = samples()
    more = 21 + growth.SLACK.get(name, 0)
    found[4][1]["ps 0"][name] = more                # even if it is gone at the end
    (wrong,) = growth.grown(found)
    assert wrong.startswith(f"ps 0's {name}: 20 -> {more} at step 500000")
    found[4][1]["ps 0"][name] = more - 1
    assert growth.grown(found) == []


def test_threads_that_came_are_named():
    found = samples()
    found[9][1]["ps 0"].update(threads=21, kinds={"MainThread": 1, "pyflow-lost": 1})
    assert growth.grown(found) == [
        "ps 0's threads: 20 -> 21 at step 1000000 {'pyflow-lost': 1}"]
