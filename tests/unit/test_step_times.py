"""The estimate is the longest of the last three steps of a kind, less what has passed."""

from gtpo_lit.step_times import StepTimes


class Clock:
    """A clock that is set by hand."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def take(times: StepTimes, clock: Clock, *seconds: float, validates: bool = False) -> None:
    for one in seconds:
        times.begin(validates=validates)
        clock.now += one
        times.end()


def test_the_longest_of_the_last_three_counts():
    clock = Clock()
    times = StepTimes(clock=clock)
    take(times, clock, 50.0, 4.0, 7.0)
    times.begin(validates=False)
    assert times.left() == 50.0
    take(times, clock, 5.0)
    times.begin(validates=False)
    assert times.left() == 7.0
    clock.now += 2.5
    assert times.left() == 4.5


def test_a_step_that_takes_longer_than_all_before_has_zero_left():
    clock = Clock()
    times = StepTimes(clock=clock)
    take(times, clock, 3.0)
    times.begin(validates=False)
    clock.now += 8.0
    assert times.left() == 0.0


def test_nothing_is_known_before_the_first_step_of_a_kind_has_ended():
    clock = Clock()
    times = StepTimes(clock=clock)
    assert times.left() is None
    times.begin(validates=False)
    assert times.left() is None
    clock.now += 2.0
    times.end()
    times.begin(validates=True)
    assert times.left() is None


def test_steps_with_a_validation_are_a_kind_of_their_own():
    clock = Clock()
    times = StepTimes(clock=clock)
    take(times, clock, 1.0, 2.0)
    take(times, clock, 30.0, validates=True)
    take(times, clock, 1.5, 1.0)
    times.begin(validates=False)
    assert times.left() == 2.0
    times.begin(validates=True)
    assert times.left() == 30.0


def test_how_many_count_can_be_chosen():
    clock = Clock()
    times = StepTimes(recent=1, clock=clock)
    take(times, clock, 9.0, 2.0)
    times.begin(validates=False)
    assert times.left() == 2.0


def test_an_end_without_a_beginning_counts_nothing():
    clock = Clock()
    times = StepTimes(clock=clock)
    times.end()
    clock.now += 5.0
    times.begin(validates=False)
    assert times.left() is None
