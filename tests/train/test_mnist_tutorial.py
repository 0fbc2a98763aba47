"""examples/mnist_tutorial.py: killed again and again it ends with the undisturbed run's weights."""
import kills
import pytest


@pytest.mark.long
def test_killed_trainings_end_with_the_same_bits(tmp_path):
    whole, ends, done = kills.run(tmp_path, 20, 120, 10, 1)
    assert whole[1] > 0.9 and sum(done.values()) == 20
    assert len(done) > 1 and set(ends) == {whole}


def test_it_trains_and_goes_on(tmp_path):
    training = kills.Training(tmp_path, 120, 20)
    whole, accuracy = kills.finish(training.start())
    assert accuracy > 0.9
    again, _ = kills.finish(training.start())       # nothing is left to do
    assert again == whole
