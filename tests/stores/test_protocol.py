"""What every store does. A new one joins by its line in conftest.py."""

from __future__ import annotations

import threading
from dataclasses import replace
from hashlib import sha256
from itertools import pairwise

import pytest

from demiurge.errors import Conflict, InvalidValue, NotFound, UsageError
from demiurge.stores import Attempt, Batch, Head, Outgoing, Row, Snapshot, Store, UnitConflict
from demiurge.values.refs import Ref, ref_of

LONG = b"\x00long" * 10_000
SIZES = [0, 1, 16 * 1024, 16 * 1024 + 1, 100_000]


def row(unit: str, seq: int, text: str = "", ingress: str | None = None) -> Row:
    data = f"{unit} {seq} {text}".encode()
    return Row(unit, seq, "event", sha256(data).digest(), data, ingress)


def batch(unit: str, seq: int, count: int = 1, *, is_open: bool = False) -> Batch:
    return Batch(unit, seq, tuple(row(unit, seq + index) for index in range(count)), is_open)


def everything(store: Store) -> object:
    """All that a refused append must leave as it was."""
    return (list(store.read_all()), list(store.heads()), store.outbox(), sorted(store.iter_blobs()))


class TestAppend:
    def test_rows_come_back_in_order_with_growing_positions(self, store: Store) -> None:
        positions = store.append([batch("a", 0, 3), batch("b", 0, 2)])
        positions += store.append([batch("a", 3, 1)])
        assert [len(those) for those in positions] == [3, 2, 1]
        flat = [position for those in positions for position in those]
        assert flat[0] >= 1
        assert all(first < second for first, second in pairwise(flat))
        expected = [row("a", 0), row("a", 1), row("a", 2), row("b", 0), row("b", 1), row("a", 3)]
        found = list(store.read_all())
        assert [(r.unit, r.unit_seq, r.kind, r.hash, r.data, r.ingress_id) for r in found] == [
            (r.unit, r.unit_seq, r.kind, r.hash, r.data, r.ingress_id) for r in expected
        ]
        assert [r.position for r in found] == flat
        assert [r.position for r in store.read("a")] == [*positions[0], *positions[2]]

    def test_nothing_to_write_writes_nothing(self, store: Store) -> None:
        assert store.append([]) == []
        assert everything(store) == ([], [], [], [])

    def test_a_later_batch_sees_what_an_earlier_one_of_the_same_call_wrote(self, store: Store) -> None:
        store.append([batch("a", 0, 2), batch("b", 0), batch("a", 2, 2)])
        assert [r.unit_seq for r in store.read("a")] == [0, 1, 2, 3]
        with pytest.raises(UnitConflict):
            store.append([batch("a", 4), batch("a", 4)])
        assert store.head("a") is not None
        assert [r.unit_seq for r in store.read("a")] == [0, 1, 2, 3]

    @pytest.mark.parametrize("seq", [0, 1, 3])
    def test_a_stale_batch_is_refused_by_name_and_nothing_is_written(self, store: Store, seq: int) -> None:
        store.append([batch("a", 0, 2)])
        before = everything(store)
        good = Batch("b", 0, (row("b", 0),), True, (Outgoing("m1", "b", "a", b"x"),))
        with pytest.raises(UnitConflict, match=r"Unit a is at record 2") as caught:
            store.append([good, batch("a", seq)], blobs=[b"blob"])
        assert isinstance(caught.value, Conflict)
        assert (caught.value.unit, caught.value.code) == ("a", "stale_sequence")
        assert everything(store) == before or everything(store) == (*before[:3], [ref_of(b"blob")])  # type: ignore[index]
        store.append([good, batch("a", 2)])

    def test_a_first_batch_must_start_at_zero(self, store: Store) -> None:
        with pytest.raises(UnitConflict, match="Unit a is at record 0, not 1"):
            store.append([batch("a", 1)])
        assert store.head("a") is None

    def test_an_ingress_id_is_taken_once_per_unit(self, store: Store) -> None:
        store.append([Batch("a", 0, (row("a", 0, ingress="in-1"), row("a", 1)), False)])
        store.append([Batch("b", 0, (row("b", 0, ingress="in-1"),), False)])
        before = everything(store)
        twice = (row("a", 2, ingress="in-2"), row("a", 3, ingress="in-2"))
        with pytest.raises(UnitConflict) as caught:
            store.append([batch("b", 1), Batch("a", 2, (row("a", 2, ingress="in-1"),), False)])
        assert (caught.value.unit, caught.value.code) == ("a", "duplicate_ingress")
        with pytest.raises(UnitConflict) as caught:
            store.append([Batch("a", 2, twice, False)])
        assert caught.value.code == "duplicate_ingress"
        assert everything(store) == before
        assert store.find_ingress("a", "in-1") == 0
        assert store.find_ingress("a", "in-2") is None
        assert store.find_ingress("c", "in-1") is None

    @pytest.mark.parametrize(
        "bad",
        [
            Batch("a", 0, (row("b", 0),), False),
            Batch("a", 0, (row("a", 1),), False),
            Batch("a", 0, (row("a", 0), row("a", 0)), False),
            Batch("a", 0, (Row("a", 0, "event", bytes(32), b"data"),), False),
        ],
    )
    def test_a_batch_that_is_not_well_formed_is_refused(self, store: Store, bad: Batch) -> None:
        with pytest.raises(InvalidValue) as caught:
            store.append([batch("c", 0), bad])
        assert caught.value.code == "bad_batch"
        assert everything(store) == ([], [], [], [])

    def test_blobs_given_with_rows_are_there(self, store: Store) -> None:
        store.append([batch("a", 0)], blobs=[b"short", LONG, b"short"])
        assert [store.get_blob(ref_of(data)) for data in (b"short", LONG)] == [b"short", LONG]
        store.append([], blobs=[b"alone"])
        assert store.get_blob(ref_of(b"alone")) == b"alone"

    def test_odd_names_and_bytes_survive(self, store: Store) -> None:
        for unit in ["", "a\0b", "é/Ünit@1|chat 1", "\U0010ffff", "%_*?'\""]:
            data = bytes(range(256)) * 40
            ingress = f"in {unit}"
            store.append([Batch(unit, 0, (Row(unit, 0, unit, sha256(data).digest(), data, ingress),), True)])
            (found,) = store.read(unit)
            assert (found.unit, found.kind, found.data, found.ingress_id) == (unit, unit, data, ingress)
            assert store.find_ingress(unit, ingress) == 0
        assert [head.unit for head in store.heads()] == sorted(head.unit for head in store.heads())


class TestHeads:
    def test_a_head_says_where_its_unit_stands(self, store: Store) -> None:
        assert store.head("a") is None
        (positions,) = store.append([batch("a", 0, 3, is_open=True)])
        assert store.head("a") == Head("a", 3, row("a", 2).hash, True, positions[-1])
        ((position,),) = store.append([batch("a", 3)])
        assert store.head("a") == Head("a", 4, row("a", 3).hash, False, position)

    def test_a_batch_without_rows_changes_only_open_and_messages(self, store: Store) -> None:
        store.append([batch("a", 0)])
        head = store.head("a")
        assert head is not None
        message = Outgoing("m", "a", "b", b"x")
        assert store.append([Batch("a", 1, (), True, (message,))]) == [[]]
        assert store.head("a") == Head("a", 1, head.hash, True, head.position)
        assert store.outbox() == [message]
        with pytest.raises(UnitConflict):
            store.append([Batch("a", 0, (), False)])
        assert store.append([Batch("new", 0, (), True, (), ("m",))]) == [[]]
        assert store.head("new") is None
        assert store.outbox() == []

    def test_heads_are_listed_by_name_by_prefix_and_by_open(self, store: Store) -> None:
        names = ["sys/b", "app/x", "app/z", "app", "app/y", "apq"]
        store.append([batch(name, 0, is_open=name.endswith(("y", "b", "q"))) for name in names])
        assert [head.unit for head in store.heads()] == sorted(names)
        assert [head.unit for head in store.heads("app/")] == ["app/x", "app/y", "app/z"]
        assert [head.unit for head in store.heads(open_only=True)] == ["app/y", "apq", "sys/b"]
        assert [head.unit for head in store.heads("app", open_only=True)] == ["app/y"]
        assert list(store.heads("nothing")) == []

    def test_more_than_a_thousand_heads_are_listed(self, store: Store) -> None:
        names = [f"unit/{number:05}" for number in range(1234)]
        store.append([batch(name, 0, is_open=True) for name in names])
        assert [head.unit for head in store.heads()] == names
        assert [head.unit for head in store.heads("unit/0", open_only=True)] == names[:1234]


class TestRead:
    def test_rows_are_read_from_a_position_up_to_a_limit(self, store: Store) -> None:
        store.append([batch("a", 0, 1300), batch("b", 0, 1300)])
        assert [r.unit_seq for r in store.read("a")] == list(range(1300))
        assert [r.unit_seq for r in store.read("a", 1290)] == list(range(1290, 1300))
        assert [r.unit_seq for r in store.read("a", 10, 3)] == [10, 11, 12]
        assert [r.unit_seq for r in store.read("b", 100, 1100)] == list(range(100, 1200))
        assert list(store.read("a", 1300)) == []
        assert list(store.read("a", 5000)) == []
        assert list(store.read("a", 0, 0)) == []
        assert list(store.read("nobody")) == []
        rows = list(store.read_all())
        assert len(rows) == 2600
        assert list(store.read_all(rows[700].position)) == rows[700:]
        assert list(store.read_all(rows[700].position, 1100)) == rows[700:1800]
        assert list(store.read_all(rows[700].position, 0)) == []
        assert list(store.read_all(rows[-1].position + 1)) == []

    def test_an_iteration_does_not_stop_a_writer(self, store: Store) -> None:
        store.append([batch("a", 0, 1200)])
        reading = store.read_all()
        seen = [next(reading)]
        store.append([batch("a", 1200)])
        seen += reading
        assert [r.unit_seq for r in seen][:1200] == list(range(1200))

    def test_many_threads_read_while_one_writes(self, store: Store) -> None:
        problems: list[str] = []
        done = threading.Event()

        def read() -> None:
            while not done.is_set():
                rows = list(store.read("a"))
                head = store.head("a")
                if [r.unit_seq for r in rows] != list(range(len(rows))):
                    problems.append("a gap")
                if head is not None and head.next_seq < len(rows):
                    problems.append("a head behind its rows")
                if any(len(list(group)) % 3 for group in [rows]):
                    problems.append("half a transaction")

        readers = [threading.Thread(target=read) for _ in range(3)]
        for reader in readers:
            reader.start()
        for seq in range(0, 90, 3):
            store.append([batch("a", seq, 3)])
            store.put_blob(b"%d" % seq)
        done.set()
        for reader in readers:
            reader.join()
        assert problems == []

    def test_of_many_writers_one_wins_each_number(self, store: Store) -> None:
        wins: list[int] = []

        def write() -> None:
            for seq in range(20):
                try:
                    store.append([batch("a", seq)])
                except UnitConflict:
                    continue
                wins.append(seq)

        writers = [threading.Thread(target=write) for _ in range(4)]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
        head = store.head("a")
        assert head is not None
        assert sorted(wins) == list(range(head.next_seq))
        assert head.next_seq == 20


class TestOutbox:
    def test_messages_wait_in_order_until_they_are_delivered(self, store: Store) -> None:
        messages = [Outgoing(f"m{n}", "a", "b" if n % 2 else "c", b"%d" % n) for n in range(6)]
        store.append([Batch("a", 0, (row("a", 0),), False, tuple(messages[:4]))])
        store.append([Batch("b", 0, (row("b", 0),), False, (), ("m1",))])
        store.append([Batch("a", 1, (row("a", 1),), False, tuple(messages[4:]))])
        assert store.outbox() == [messages[0], *messages[2:]]
        store.append([Batch("c", 0, (row("c", 0),), False, (), ("m0", "m2", "m5", "unknown"))])
        assert store.outbox() == [messages[3], messages[4]]
        again = Outgoing("m6", "a", "b", b"")
        store.append([Batch("a", 2, (row("a", 2),), False, (again,))])
        assert store.outbox() == [messages[3], messages[4], again]

    def test_a_message_may_be_sent_and_delivered_in_one_call(self, store: Store) -> None:
        message = Outgoing("m", "a", "b", b"x")
        sent = Batch("a", 0, (row("a", 0),), False, (message,))
        store.append([sent, Batch("b", 0, (row("b", 0, ingress="m"),), False, (), ("m",))])
        assert store.outbox() == []

    def test_an_id_that_is_waiting_is_not_sent_again(self, store: Store) -> None:
        message = Outgoing("m", "a", "b", b"x")
        store.append([Batch("a", 0, (row("a", 0),), False, (message,))])
        before = everything(store)
        with pytest.raises(UnitConflict) as caught:
            store.append([Batch("c", 0, (row("c", 0),), False, (message,))])
        assert (caught.value.unit, caught.value.code) == ("c", "duplicate_message")
        assert everything(store) == before


class TestAttemptsAndSnapshots:
    def test_the_first_attempt_of_an_intent_stays(self, store: Store) -> None:
        first = Attempt(b"i" * 32, "a", "worker-1", 2**62)
        store.append([], attempts=[first, Attempt(b"j", "a", "worker-1", 5)])
        store.append([], attempts=[Attempt(b"i" * 32, "a", "worker-2", 9)])
        store.append([], attempts=[])
        assert store.attempts([b"i" * 32, b"unknown"]) == {b"i" * 32: first}
        assert store.attempts([]) == {}

    def test_the_latest_snapshot_is_the_one_furthest_on(self, store: Store) -> None:
        store.append([batch("a", 0, 10)])
        assert store.latest_snapshot("a") is None
        ref = ref_of(b"state")
        late, early = Snapshot("a", 9, row("a", 9).hash, ref), Snapshot("a", 4, row("a", 4).hash, ref)
        store.put_snapshot(late)
        store.put_snapshot(early)
        assert store.latest_snapshot("a") == late
        better = Snapshot("a", 9, row("a", 9).hash, ref_of(b"other"))
        store.put_snapshot(better)
        assert store.latest_snapshot("a") == better
        assert store.latest_snapshot("b") is None

    def test_the_snapshot_before_a_record_is_the_next_older_one(self, store: Store) -> None:
        store.append([batch("a", 0, 10)])
        old, new = (Snapshot("a", seq, row("a", seq).hash, ref_of(b"state")) for seq in (4, 9))
        store.put_snapshot(old)
        store.put_snapshot(new)
        assert store.latest_snapshot("a", 9) == old
        assert store.latest_snapshot("a", 10) == new
        assert store.latest_snapshot("a", 4) is None

    def test_a_snapshot_is_written_with_its_batch_or_not_at_all(self, store: Store) -> None:
        snapshot = Snapshot("a", 1, row("a", 1).hash, ref_of(b"state"))
        with pytest.raises(UnitConflict):
            store.append([replace(batch("a", 0, 2), snapshot=snapshot), batch("b", 5, 1)])
        assert store.latest_snapshot("a") is None
        store.append([replace(batch("a", 0, 2), snapshot=snapshot)])
        assert store.latest_snapshot("a") == snapshot

    def test_a_batch_has_no_snapshot_of_another_unit(self, store: Store) -> None:
        with pytest.raises(InvalidValue, match="snapshot of b"):
            store.append([replace(batch("a", 0, 1), snapshot=Snapshot("b", 0, bytes(32), ref_of(b"")))])

    def test_there_is_no_snapshot_of_nothing(self, store: Store) -> None:
        with pytest.raises(NotFound, match="unit a"):
            store.put_snapshot(Snapshot("a", 0, bytes(32), ref_of(b"")))


class TestBlobs:
    @pytest.mark.parametrize("size", SIZES)
    def test_bytes_come_back_under_their_hash(self, store: Store, size: int) -> None:
        data = (b"0123456789" * (size // 10 + 1))[:size]
        ref = store.put_blob(data)
        assert ref == ref_of(data)
        assert store.put_blob(data) == ref
        assert store.get_blob(ref) == data
        assert store.has_blob(ref)
        assert store.blob_size(ref) == size
        assert list(store.iter_blobs()) == [ref]

    def test_many_blobs_are_stored_at_once(self, store: Store) -> None:
        blobs = [b"%d" % number * (1 + number % 7 * 1000) for number in range(700)] + [LONG, LONG, b""]
        refs = store.put_blobs(blobs)
        assert refs == [ref_of(data) for data in blobs]
        assert [store.get_blob(ref) for ref in refs] == blobs
        assert sorted(store.iter_blobs()) == sorted(set(refs))
        assert store.put_blobs([]) == []

    def test_a_value_that_is_not_there_is_said_to_be_not_there(self, store: Store) -> None:
        ref = ref_of(b"never put")
        assert not store.has_blob(ref)
        with pytest.raises(NotFound, match=ref):
            store.get_blob(ref)
        with pytest.raises(NotFound, match=ref):
            store.blob_size(ref)

    @pytest.mark.parametrize("text", ["", "sha256:", "sha256:../../lock", "sha256:" + "A" * 64])
    def test_a_value_that_is_no_ref_is_refused(self, store: Store, text: str) -> None:
        for method in (store.get_blob, store.has_blob, store.blob_size):
            with pytest.raises(InvalidValue):
                method(Ref(text))


class TestWorld:
    def test_a_meta_value_is_stored_and_replaced(self, store: Store) -> None:
        assert store.get_meta("manifest") is None
        store.set_meta("manifest", "one")
        store.set_meta("manifest", "zwei · 二")
        assert store.get_meta("manifest") == "zwei · 二"

    def test_a_world_keeps_its_id(self, store: Store) -> None:
        assert store.world_id == store.get_meta("world_id") == "world_1"
        assert store.format == 4
        assert dict(store.damaged) == {}
        with pytest.raises(UsageError, match="fork"):
            store.set_meta("world_id", "world_2")

    def test_a_closed_store_says_so(self, store: Store) -> None:
        store.append([batch("a", 0)])
        store.close()
        store.close()
        with pytest.raises(UsageError, match="closed"):
            store.head("a")
        with pytest.raises(UsageError, match="closed"):
            store.append([batch("a", 1)])
        with pytest.raises(UsageError, match="closed"):
            list(store.read_all())
        with pytest.raises(UsageError, match="closed"):
            store.put_blob(b"")
