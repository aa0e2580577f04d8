"""A fork waits for who is inside, and for nobody else."""

from __future__ import annotations

import threading

from demiurge.stores.sqlite.fork_guard import ForkGuard


class House:
    def __init__(self) -> None:
        self.put_away_with: list[int] = []
        self.gate = ForkGuard(self.put_away)

    def put_away(self) -> None:
        self.put_away_with.append(self.gate._inside)


def test_no_thread_enters_the_guard_while_it_is_being_shut() -> None:
    house, inside, leave = House(), threading.Event(), threading.Event()
    came_in: list[str] = []

    def stay() -> None:
        with house.gate.inside():
            inside.set()
            leave.wait()

    def come() -> None:
        with house.gate.inside():
            came_in.append("late")

    def shut() -> None:
        house.gate.shut()
        came_in.append("shut")
        house.gate.open(in_child=False)

    first = threading.Thread(target=stay)
    first.start()
    inside.wait()
    shutting = threading.Thread(target=shut)
    shutting.start()
    while not house.gate._shutting:
        pass
    late = [threading.Thread(target=come) for _ in range(4)]
    for thread in late:
        thread.start()
    leave.set()
    for thread in (first, shutting, *late):
        thread.join()
    assert came_in == ["shut", *["late"] * 4]
    assert house.put_away_with == [0]


def test_the_guard_of_a_forked_child_is_open_and_empty() -> None:
    house = House()
    with house.gate.inside():
        pass
    house.gate.shut()
    house.gate.open(in_child=True)
    with house.gate.inside():
        assert house.gate._inside == 1
