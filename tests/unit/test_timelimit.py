"""Time limits: interrupted where that can be done, told where it can't, nested, put back."""

from __future__ import annotations

import signal
import sys
import threading
import time

import pytest

from cede.timelimit import Expired, time_limit

LONG = 60.0


def spin() -> None:
    while True:
        pass


# not by SIGALRM: these tests look at that timer, and one that hangs must still end
pytestmark = pytest.mark.timeout(60, method="thread")


@pytest.fixture(autouse=True)
def timer_is_put_back():
    yield
    left = signal.setitimer(signal.ITIMER_REAL, 0)
    handler = signal.signal(signal.SIGALRM, signal.SIG_DFL)
    assert left == (0.0, 0.0)
    assert handler == signal.SIG_DFL


def test_a_body_in_time_is_left_alone():
    with time_limit(LONG) as limit:
        value = 1
    assert value == 1
    assert not limit.expired


@pytest.mark.parametrize("hang", [spin, lambda: time.sleep(LONG)])
def test_a_hang_is_interrupted(hang):
    with pytest.raises(TimeoutError, match=r"took longer than 0\.1 s"), time_limit(0.1):
        hang()


def test_the_traceback_shows_where_it_hung():
    with pytest.raises(TimeoutError) as caught, time_limit(0.1):
        spin()
    assert "spin" in [entry.name for entry in caught.traceback]


def spin_despite_exceptions() -> None:
    while True:
        try:
            spin()
        except Exception:
            pass


def spin_and_swallow() -> None:
    try:
        spin()
    except BaseException:
        pass


def spin_swallow_spin() -> None:
    spin_and_swallow()
    spin()


@pytest.mark.parametrize("hang", [spin_despite_exceptions, spin_and_swallow, spin_swallow_spin])
def test_a_body_that_eats_the_interrupt_is_late_all_the_same(hang):
    with pytest.raises(TimeoutError), time_limit(0.1):
        hang()


def spin_then_raise(error: type[BaseException]) -> None:
    try:
        spin()
    finally:
        raise error


def test_an_error_in_time_passes():
    with pytest.raises(KeyError), time_limit(LONG):
        raise KeyError


def test_an_error_that_comes_late_is_the_cause():
    with pytest.raises(TimeoutError) as caught, time_limit(0.1):
        spin_then_raise(KeyError)
    assert isinstance(caught.value.__cause__, KeyError)


def test_a_late_keyboard_interrupt_passes():
    with pytest.raises(KeyboardInterrupt), time_limit(0.1):
        spin_then_raise(KeyboardInterrupt)


@pytest.mark.parametrize("seconds", [0, -1, float("nan")])
def test_no_time_is_no_limit(seconds):
    with pytest.raises(ValueError, match="above 0"):
        time_limit(seconds)


def test_the_inner_limit_ends_first_and_the_outer_goes_on():
    with time_limit(LONG) as outer:
        with pytest.raises(TimeoutError, match=r"0\.1 s"), time_limit(0.1):
            spin()
        assert 0 < signal.getitimer(signal.ITIMER_REAL)[0] <= LONG
    assert not outer.expired


def test_the_outer_limit_ends_first_and_is_not_taken_for_the_inner():
    seen: list[Expired] = []
    inner = time_limit(LONG)

    def body() -> None:
        try:
            with inner:
                spin()
        except Expired as error:
            seen.append(error)
            raise

    with pytest.raises(TimeoutError, match=r"0\.1 s"), time_limit(0.1):
        body()
    assert seen[0].limit is not inner
    assert not inner.expired


def test_the_outer_limit_still_ends_after_an_inner_body():
    def body() -> None:
        with time_limit(LONG):
            pass
        spin()

    with pytest.raises(TimeoutError, match=r"0\.2 s"), time_limit(0.2):
        body()


def test_another_users_alarm_rings_inside_and_after():
    rung = []
    signal.signal(signal.SIGALRM, lambda *_: rung.append(1))
    signal.setitimer(signal.ITIMER_REAL, 0.1, 0.1)
    with pytest.raises(TimeoutError), time_limit(0.35):
        spin()
    inside = len(rung)
    while len(rung) == inside:
        pass
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    assert inside > 1


def test_an_alarm_that_rings_in_the_exit_leaves_nothing_behind():
    limit = time_limit(LONG)
    rung = []

    def ring(frame, event, _):
        if event == "call" and frame.f_code is time_limit.__exit__.__code__ and not rung:
            rung.append(1)
            limit._deadline = 0.0
            limit._ring(signal.SIGALRM, frame)

    former = sys.gettrace()
    try:
        with pytest.raises(TimeoutError), limit:
            sys.settrace(ring)
    finally:
        sys.settrace(former)
    assert rung


def test_off_the_main_thread_it_tells_afterwards():
    seen: list[object] = []

    def late() -> None:
        try:
            with time_limit(0.05):
                time.sleep(0.2)
                seen.append("ran to its end")
        except TimeoutError as error:
            seen.append(str(error))

    thread = threading.Thread(target=late)
    thread.start()
    thread.join()
    assert seen == ["ran to its end", "took longer than 0.05 s"]


def test_off_the_main_thread_an_error_of_the_body_passes():
    seen: list[type] = []

    def fails() -> None:
        try:
            with time_limit(0.05):
                time.sleep(0.1)
                raise KeyError
        except Exception as error:
            seen.append(type(error))

    thread = threading.Thread(target=fails)
    thread.start()
    thread.join()
    assert seen == [KeyError]
