"""Numbers that threads share out."""

import threading

import pytest

from riparian.models.kernels.threads import n_cores, pass_on, quota, share


@pytest.mark.parametrize(("threads", "n"), [(1, 5), (2, 0), (2, 1), (2, 11), (3, 10), (8, 3)])
def test_each_number_is_run_once(threads, n):
    found = []
    share(threads, n, found.append)
    assert sorted(found) == list(range(n))


def test_a_thread_helps_the_other_when_it_is_done():
    """Numbers 0 .. 4 are this thread's; it waits in the first one until the others have been run by the helper."""
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

    share(2, 10, run)
    assert len(ran) == 10
    assert ran[0] == threading.get_ident()
    assert len({ran[i] for i in range(1, 10)} - {ran[0]}) == 1


@pytest.mark.parametrize("bad", [0, 5, 9])
def test_what_a_thread_raises_comes_out_after_all_have_ended(bad):
    running = []

    def run(i):
        running.append(i)
        if i == bad:
            raise ValueError(i)
        running.remove(i)

    with pytest.raises(ValueError, match=str(bad)):
        share(2, 10, run)
    assert running == [bad]


@pytest.mark.parametrize(
    ("threads", "n", "n_stages", "under_way"), [(1, 3, 4, 1), (2, 0, 3, 4), (2, 7, 5, 1), (3, 9, 12, 4)]
)
def test_items_pass_through_their_stages_in_order(threads, n, n_stages, under_way):
    began, ended = [], []

    def run(item, stage):
        began.append((item, stage))
        assert stage == 0 or (item, stage - 1) in ended
        assert item == 0 or (item - 1, stage) in ended
        assert len({i for i, _ in began}) - sum(stage == n_stages - 1 for _, stage in ended) <= under_way
        ended.append((item, stage))

    pass_on(threads, n, n_stages, under_way, run)
    assert sorted(ended) == [(item, stage) for item in range(n) for stage in range(n_stages)]


@pytest.mark.parametrize("bad", [(0, 0), (2, 1), (4, 3)])
def test_what_a_stage_raises_comes_out(bad):
    def run(item, stage):
        if (item, stage) == bad:
            raise ValueError(item)

    with pytest.raises(ValueError, match=str(bad[0])):
        pass_on(2, 5, 4, 3, run)


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
