"""Random schedules of calls agree with a model in plain Python (schedules.py; a million of them:
`long.py queue-schedules`)."""
import pytest

import schedules


def test_schedules_equal_the_model():
    assert schedules.main(2000, seed=7) == 0


def test_nothing_is_lost_or_doubled_in_any_order():
    assert schedules.main(150, seed=3, threads=3) == 0


def test_the_model_s_random_words_are_philox():
    """The published test vector of Philox4x32-10 for zeros (Salmon et al., 2011)."""
    words = schedules.philox(0, 0)
    assert [next(words) for _ in range(4)] == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]


@pytest.mark.parametrize("kind", schedules.KINDS)
def test_a_wrong_answer_is_found(kind, monkeypatch):
    """The checker does compare: a model that gives elements back in another order disagrees."""
    monkeypatch.setattr(schedules.Model, "pop", lambda self: self.items.pop())
    real = schedules.Real(kind, 3, 0, (87654321, 11), 1)
    import random
    assert any(schedules.schedule(random.Random(k), real, schedules.Model(
        kind, 3, 0, (87654321, 11))) for k in range(60))
