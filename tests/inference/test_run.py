"""Contract D: what `run` promises to kernels, callbacks and those who resume."""

from collections import Counter

import numpy as np
import pytest

from weald.exceptions import PersistError
from weald.inference.run import AbstractKernel, run

KEY = np.uint64(7)


class Walk(AbstractKernel):
    """Metropolis steps on a standard normal."""

    def init(self, rng):
        return np.array(rng.normal())

    def step(self, rng, state):
        proposal = state + rng.normal()
        accepted = np.log(rng.random()) < (state**2 - proposal**2) / 2
        return (proposal if accepted else state), {"accepted": float(accepted), "x": float(state)}


def collect(state):
    return {"x": np.array(state)}


def equal(a, b):
    assert len(a) == len(b)
    for one, other in zip(a, b, strict=True):
        for x, y in ((one.stats, other.stats), (one.draws, other.draws)):
            assert set(x) == set(y)
            assert all(np.array_equal(x[name], y[name]) for name in x)
        assert np.array_equal(one.state, other.state)
    return True


def test_shapes_warmup_and_thinning():
    chains = run(Walk(), key=KEY, sweeps=50, chains=3, warmup=10, thin=4, collect=collect)
    assert len(chains) == 3
    for chain in chains:
        assert chain.stats["accepted"].shape == (50,)
        assert chain.draws["x"].shape == (10,)
        np.testing.assert_array_equal(chain.draws["x"][:-1], chain.stats["x"][14::4])
        assert chain.draws["x"][-1] == chain.state
    assert not np.array_equal(chains[0].stats["x"], chains[1].stats["x"])


def test_chains_do_not_depend_on_each_other():
    many = run(Walk(), key=KEY, sweeps=20, chains=3, collect=collect)
    assert equal(run(Walk(), key=KEY, sweeps=20, chains=1, collect=collect), many[:1])
    longer = run(Walk(), key=KEY, sweeps=30, chains=3, collect=collect)
    assert np.array_equal(longer[2].stats["x"][:20], many[2].stats["x"])
    assert not np.array_equal(run(Walk(), key=np.uint64(8), sweeps=20)[0].stats["x"], many[0].stats["x"])


def test_no_two_steps_share_a_generator():
    seen = Counter()

    class Spy(AbstractKernel):
        def init(self, rng):
            seen[rng.random()] += 1
            return 0

        def step(self, rng, state):
            seen[rng.random()] += 1
            return state, {}

    run(Spy(), key=KEY, sweeps=40, chains=5)
    assert len(seen) == 5 * 41
    assert set(seen.values()) == {1}


def test_it_samples_its_target():
    draws = np.concatenate([c.draws["x"] for c in run(Walk(), key=KEY, sweeps=1_500, chains=4, collect=collect)])
    assert abs(draws.mean()) < 0.15
    assert abs(draws.std() - 1) < 0.12


def test_stop_sees_the_stats_so_far():
    sizes = []

    def stop(stats):
        sizes.append(len(stats["x"]))
        return sizes[-1] >= 5

    [chain] = run(Walk(), key=KEY, sweeps=50, stop=stop)
    assert sizes == [1, 2, 3, 4, 5]
    assert chain.stats["x"].size == 5


def test_events():
    events = []
    run(Walk(), key=KEY, sweeps=3, chains=2, callbacks=[events.append])
    assert [(e.phase, e.chain, e.sweep) for e in events] == [
        (phase, chain, sweep)
        for chain in range(2)
        for phase, sweep in [("begin", 0), ("step", 1), ("step", 2), ("step", 3), ("end", 3)]
    ]
    assert {(e.total, e.n_chains) for e in events} == {(3, 2)}
    assert events[0].stats == {}
    assert set(events[1].stats) == {"accepted", "x"}


def test_a_callback_ends_the_whole_run_and_all_are_told():
    told = []
    chains = run(Walk(), key=KEY, sweeps=9, chains=3, callbacks=[lambda e: e.chain == 1 and e.sweep == 4, told.append])
    assert [c.stats["x"].size for c in chains] == [9, 4]
    assert told[-1].phase == "end"


def test_snapshots_stay_what_they_were():
    """A snapshot taken early is not changed by the steps that follow."""
    taken = []
    run(Walk(), key=KEY, sweeps=6, chains=2, collect=collect, callbacks=[lambda e: taken.append(e.snapshot())])
    assert [(s.sweep, len(s.done), s.current.stats.get("x", np.empty(0)).size) for s in taken if s.sweep == 3] == [
        (3, 0, 3),
        (3, 1, 3),
    ]


@pytest.mark.parametrize("stop", [None, lambda stats: len(stats["x"]) >= 8])
def test_every_snapshot_resumes_exactly(stop):
    options = {"key": KEY, "sweeps": 12, "chains": 3, "warmup": 4, "collect": collect, "stop": stop}
    taken = []
    whole = run(Walk(), callbacks=[lambda e: taken.append(e.snapshot()) and None], **options)
    assert len(taken) > 20
    for snapshot in taken:
        assert equal(whole, run(Walk(), resume=snapshot, **options))


def test_resuming_another_run_is_refused():
    taken = []
    run(Walk(), key=KEY, sweeps=3, callbacks=[lambda e: taken.append(e.snapshot()) and None], fingerprint=lambda: "a")
    run(Walk(), key=KEY, sweeps=3, resume=taken[0], fingerprint=lambda: "a")
    with pytest.raises(PersistError, match="another fit"):
        run(Walk(), key=KEY, sweeps=3, resume=taken[0], fingerprint=lambda: "b")
    with pytest.raises(PersistError, match="another fit"):
        run(Walk(), key=np.uint64(8), sweeps=3, resume=taken[0], fingerprint=lambda: "a")


def test_a_callback_may_stop_before_the_first_step():
    [chain] = run(Walk(), key=KEY, sweeps=5, callbacks=[lambda e: True])
    assert chain.stats == {}
    assert chain.draws == {}
