"""The circuit: opens after failures in a row, lets one try after the pause, closes when that succeeds."""

from __future__ import annotations

from slipstream.runtime.circuit import Circuit


class Time:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def opened(time: Time) -> Circuit:
    circuit = Circuit(failures=3, pause_s=1.0, max_pause_s=3.0, clock=time)
    for _ in range(3):
        assert circuit.allows()
        circuit.failed()
    return circuit


def test_failures_in_a_row_open_it_and_others_do_not() -> None:
    circuit = Circuit(failures=3, clock=Time())
    for _ in range(5):
        circuit.failed()
        circuit.failed()
        circuit.succeeded()
    assert circuit.allows()
    assert not circuit.open
    assert opened(Time()).open


def test_after_the_pause_one_tries_and_its_success_closes() -> None:
    time = Time()
    circuit = opened(time)
    assert not circuit.allows()
    time.now_s = 1.0
    assert [circuit.allows() for _ in range(3)] == [True, False, False]
    circuit.succeeded()
    assert [circuit.allows() for _ in range(3)] == [True, True, True]


def test_a_failed_trial_doubles_the_pause_up_to_its_bound() -> None:
    time = Time()
    circuit = opened(time)
    time.now_s = 1.0
    for pause_s in (2.0, 3.0, 3.0):
        assert circuit.allows()
        circuit.failed()
        time.now_s += pause_s - 0.1
        assert not circuit.allows()
        time.now_s += 0.2
    assert circuit.allows()
    circuit.succeeded()
    for _ in range(3):
        circuit.failed()
    time.now_s += 1.0
    assert circuit.allows(), "the pause is short again"


def test_who_leaves_during_the_trial_hands_it_on() -> None:
    time = Time()
    circuit = opened(time)
    time.now_s = 1.0
    assert circuit.allows()
    circuit.abandoned()
    assert circuit.allows()


def test_late_failures_of_others_do_not_prolong_the_pause() -> None:
    time = Time()
    circuit = opened(time)
    time.now_s = 0.9
    circuit.failed()
    time.now_s = 1.0
    assert circuit.allows()
