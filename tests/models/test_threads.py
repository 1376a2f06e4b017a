"""Numbers that threads share out."""

import subprocess
import sys
import threading
from contextlib import suppress

import pytest

from riparian.models.kernels import threads as module
from riparian.models.kernels.threads import CREW, Crew, Parts, busy_time, n_cores, pass_on, quota
from tests.models.shared_out import SECONDS, waiting_step


def crew_of(n):
    crew = Crew()
    crew.n = n
    return crew


@pytest.mark.parametrize("spread", [False, True])
@pytest.mark.parametrize(("n_threads", "n"), [(1, 5), (2, 0), (2, 1), (2, 11), (3, 10), (8, 3)])
def test_each_part_is_run_once(n_threads, n, spread):
    found = []
    crew_of(n_threads).share(range(n), found.append, spread)
    assert sorted(found) == list(range(n))


def test_a_thread_helps_the_other_when_it_is_done():
    """Parts 0 .. 4 are this thread's; it waits in the first one until the others have been run by the helper."""
    begun, left, ran = threading.Event(), threading.Semaphore(0), {}

    def run(i):
        ran[i] = threading.get_ident()
        if i == 0:
            begun.set()
            for _ in range(9):
                assert left.acquire(timeout=30)
        else:
            assert begun.wait(timeout=30)  # or the helper would come to 0 before a slow machine has begun there
            left.release()

    crew_of(2).share(range(10), run)
    assert len(ran) == 10
    assert ran[0] == threading.get_ident()
    assert len({ran[i] for i in range(1, 10)} - {ran[0]}) == 1


def test_who_waits_helps_with_what_the_other_has_shared_out():
    """The helper takes part 1 and divides it; this thread, whose part 0 is done, has to run a part of that."""
    crew, both, ran = crew_of(2), threading.Barrier(2), []

    def inner(i):
        both.wait(timeout=30)
        ran.append((i, threading.get_ident()))

    def run(i):
        both.wait(timeout=30)
        if i == 1:
            crew.share(range(2), inner)

    crew.share(range(2), run)
    assert sorted(i for i, _ in ran) == [0, 1]
    assert len({thread for _, thread in ran}) == 2


@pytest.mark.parametrize("n", [2, 3, 8])
def test_parts_of_parts_from_many_threads_are_all_run(n):
    """Nobody waits for ever."""
    crew, lock, found = crew_of(n), threading.Lock(), []

    def leaf(at):
        with lock:
            found.append(at)

    def run(*at):
        crew.share(range(3), lambda i: run(*at, i) if len(at) < 3 else leaf((*at, i)))

    callers = [threading.Thread(target=run, args=(caller,)) for caller in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(timeout=60)
    assert len(found) == len(set(found)) == 4 * 27
    assert crew._helpers < n
    assert_nothing_left(crew)


@pytest.mark.parametrize("bad", [False, True])
def test_no_helper_begins_while_as_many_are_at_work_as_there_are_cores(bad):
    """Two cores: the first caller gets a helper, then three more callers come, and the helper is done first."""
    crew, lock, running, helped, most = crew_of(2), threading.Lock(), [], [], []
    all_in, helper_is_done = threading.Event(), threading.Event()

    def leaf(caller):
        me = threading.current_thread()
        with lock:
            running.append(me)
            most.append(len(running))
            if me not in callers:
                helped.append(caller)
        assert (helper_is_done if me in callers else all_in).wait(timeout=60)
        with lock:
            running.remove(me)
        if bad:
            raise ValueError(caller)

    def share(caller):
        with suppress(ValueError):
            crew.share(range(5), lambda _: leaf(caller))

    def wait_for(n_running, n_free):
        while True:
            with crew._lock, lock:
                if (len(running), crew._free) == (n_running, n_free):
                    return

    callers = [threading.Thread(target=share, args=(caller,), daemon=True) for caller in range(4)]
    callers[0].start()
    wait_for(2, 0)
    for caller in callers[1:]:
        caller.start()
    wait_for(5, 0)
    all_in.set()
    wait_for(4, 1)
    assert helped == [0]
    del most[:]
    helper_is_done.set()
    for caller in callers:
        caller.join(timeout=60)
    assert max(most, default=0) <= 4
    assert_nothing_left(crew)


@pytest.mark.parametrize("bad", [0, 5, 9])
def test_what_a_thread_raises_comes_out_after_all_have_ended(bad):
    running, crew = [], crew_of(2)

    def run(i):
        running.append(i)
        if i == bad:
            raise ValueError(i)
        running.remove(i)

    with pytest.raises(ValueError, match=str(bad)):
        crew.share(range(10), run)
    assert running == [bad]
    assert_nothing_left(crew)
    found = []
    crew.share(range(10), found.append)
    assert sorted(found) == list(range(10))


def assert_nothing_left(crew):
    """Helpers that have run the last part may not have come to say so."""
    while True:
        with crew._lock:
            if crew._free == crew._helpers:
                assert crew._jobs == []
                assert crew._at_work == 0
                return


def test_who_gets_no_helper_goes_on_alone_and_gets_one_later(monkeypatch):
    crew, found, both = crew_of(2), [], threading.Barrier(2)

    def start(_):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as full:
        full.setattr(threading.Thread, "start", start)
        crew.share(range(5), found.append)
    assert found == [*range(5)]
    assert crew._helpers == 0
    assert_nothing_left(crew)
    crew.share(range(2), lambda _: both.wait(timeout=30))


def test_who_is_interrupted_while_others_run_parts_waits_for_them_and_leaves_nothing(monkeypatch):
    both, interrupted, ended, caller = threading.Barrier(2), threading.Event(), [], threading.get_ident()

    class Interrupted(threading.Condition):
        def wait(self, timeout=None):
            if threading.get_ident() == caller and not interrupted.is_set():
                interrupted.set()
                raise KeyboardInterrupt
            return super().wait(timeout)

    def run(i):
        both.wait(timeout=30)
        if threading.get_ident() != caller:
            assert interrupted.wait(timeout=30)
            ended.append(i)

    monkeypatch.setattr(module, "Condition", Interrupted)
    crew = crew_of(2)
    with pytest.raises(KeyboardInterrupt):
        crew.share(range(2), run)
    assert len(ended) == 1
    assert_nothing_left(crew)


FORKED = """
import os, threading
from riparian.models.kernels.threads import CREW

def share():
    both = threading.Barrier(2)
    CREW.share(range(2), lambda _: both.wait(timeout=30))

CREW.n = 2
share()
child = os.fork()
if child == 0:
    share()
    os._exit(7)
raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_forked_process_has_helpers_of_its_own():
    assert subprocess.run([sys.executable, "-W", "ignore", "-c", FORKED], timeout=120, check=False).returncode == 7


@pytest.fixture
def clock(monkeypatch):
    """Parts take what is added here; two threads."""
    now = [100.0]
    monkeypatch.setattr(module, "perf_counter", lambda: now[0])
    monkeypatch.setattr(module, "thread_time", lambda: now[0])
    monkeypatch.setattr(module, "CREW", one_after_the_other := Crew())
    one_after_the_other.n = 2
    one_after_the_other.share = lambda order, run, spread: [*map(run, order)]
    return now


def test_steps_are_shared_out_by_what_they_took(clock):
    """Parts take 300 µs an operation: nobody knows at first, and from then on a step of ten times WORTH is shared."""
    ran = []

    def run(first, last):
        ran.append((first, last))
        clock[0] += 300e-6 * (last - first)

    parts = Parts()
    parts.run(module.LEAST, 10, run)
    assert ran == [(0, 10)]
    assert parts.worth(module.LEAST) == (module.WORTH <= 3e-3)
    del ran[:]
    parts.run(module.LEAST, 10, run)
    n = int(3e-3 / module.PIECE)
    assert ran == [(10 * i // n, 10 * (i + 1) // n) for i in range(n)]
    assert not parts.worth(module.LEAST - 1)
    del ran[:]
    parts.run(module.LEAST - 1, 10, run)
    assert ran == [(0, 10)]


def test_the_longest_part_comes_first_and_short_ones_go_together(clock):
    took, ran = [0.1, 5.0, 0.2, 2.0, 0.1], []  # ms

    def run(first, last):
        assert last == first + 1 or not ran
        ran.append(first)
        clock[0] += sum(took[first:last]) * 1e-3

    parts = Parts(even=False)
    for _ in range(2):  # of the whole, then of each
        parts.run(100, 5, run)
    pieces = parts._pieces(100, 5)
    assert pieces == [[(1, 2)], [(3, 4)], [(2, 3), (0, 1), (4, 5)]]
    assert sorted(ran[1:]) == [0, 1, 2, 3, 4]


def test_who_waited_for_a_core_counts_as_twice_as_long_at_most(clock):
    parts = Parts()
    for took in (1e-3, 1.0):
        parts.alone(100, lambda took=took: clock.__setitem__(0, clock[0] + took))
    assert parts._all == pytest.approx(1.25e-5)


@pytest.mark.parametrize("n", [module.LEAST, 100])
def test_steps_that_wait_for_a_core_however_often_are_not_shared_out(n, clock, monkeypatch):
    """Each takes 100 µs, and from the second on waits for a second."""
    parts, waited = Parts(), [0.0]
    monkeypatch.setattr(module, "perf_counter", lambda: clock[0] + waited[0])

    def run(seconds):
        clock[0] += 1e-4
        waited[0] += seconds

    for waits in (0, *100 * [1]):
        parts.run(n, 10, lambda *_, waits=waits: run(waits))
        assert not parts.worth(n)


def test_one_core_needs_no_clock(monkeypatch):
    monkeypatch.setattr(CREW, "n", 1)
    monkeypatch.setattr(module, "perf_counter", None)
    ran = []
    Parts().run(10_000, 3, lambda first, last: ran.append((first, last)))
    assert ran == [(0, 3)]


@pytest.mark.parametrize(
    ("threads", "n", "n_stages", "under_way"), [(1, 3, 4, 1), (2, 0, 3, 4), (2, 7, 5, 1), (3, 9, 12, 4)]
)
def test_items_pass_through_their_stages_in_order(threads, n, n_stages, under_way, monkeypatch):
    began, ended = [], []

    def run(item, stage):
        began.append((item, stage))
        assert stage == 0 or (item, stage - 1) in ended
        assert item == 0 or (item - 1, stage) in ended
        assert len({i for i, _ in began}) - sum(stage == n_stages - 1 for _, stage in ended) <= under_way
        ended.append((item, stage))

    monkeypatch.setattr(CREW, "n", max(2, threads))
    pass_on(threads, n, n_stages, under_way, run)
    assert sorted(ended) == [(item, stage) for item in range(n) for stage in range(n_stages)]


@pytest.mark.parametrize("bad", [(0, 0), (2, 1), (4, 3)])
def test_what_a_stage_raises_comes_out(bad, monkeypatch):
    monkeypatch.setattr(CREW, "n", 2)

    def run(item, stage):
        if (item, stage) == bad:
            raise ValueError(item)

    with pytest.raises(ValueError, match=str(bad[0])):
        pass_on(2, 5, 4, 3, run)


def test_who_waits_for_others_is_busy(monkeypatch):
    step, before = waiting_step(monkeypatch), busy_time()
    step()
    assert busy_time() - before == SECONDS


def test_who_waits_for_a_stage_is_busy(clock, monkeypatch):
    """The first item's last stage and the second one's first are run at a time, the helper's for longer."""
    waits, caller, now = threading.Event(), threading.get_ident(), [0.0]
    both = threading.Barrier(2, action=waits.clear)

    class Watched(threading.Condition):
        def wait(self, timeout=None):
            if threading.get_ident() == caller:
                waits.set()
            return super().wait(timeout)

    def run(item, stage):
        if item != stage:
            both.wait(timeout=30)
            if threading.get_ident() != caller:
                assert waits.wait(timeout=30)
                now[0] += SECONDS

    monkeypatch.setattr(module, "Condition", Watched)
    monkeypatch.setattr(module, "CREW", crew_of(2))
    monkeypatch.setattr(module, "perf_counter", lambda: now[0])
    before = busy_time()
    pass_on(2, 2, 2, 2, run)
    assert busy_time() - before == SECONDS


V1 = {"quota": "200000", "period": "100000"}


@pytest.mark.parametrize(
    ("groups", "files", "cores"),
    [
        ("0::/", {"cpu.max": "150000 100000"}, 1.5),
        ("0::/", {"cpu.max": "max 100000"}, None),
        ("0::/pod/a", {"cpu.max": "max 100000", "pod/cpu.max": "400000 100000", "pod/a/cpu.max": "max 1"}, 4.0),
        ("0::/of/the/host", {"cpu.max": "50000 100000"}, 0.5),
        ("9:cpu,cpuacct:/a\n3:memory:/", {f"cpu,cpuacct/a/cpu.cfs_{k}_us": n for k, n in V1.items()}, 2.0),
        ("9:cpu:/of/the/host", {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, None),
        ("9:cpuset:/", {"cpu.max": "nonsense"}, None),
        ("0::/", {}, None),
    ],
)  # fmt: skip
def test_a_container_has_the_cores_that_its_time_is_worth(tmp_path, groups, files, cores):
    own = tmp_path / "own"
    own.write_text(groups + "\n")
    for name, text in files.items():
        (tmp_path / "root" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "root" / name).write_text(text + "\n")
    assert quota(tmp_path / "root", own) == cores
    assert quota(tmp_path / "root", tmp_path / "none") is None
    assert n_cores() >= 1
