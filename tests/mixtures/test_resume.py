"""A fit that was killed goes on to exactly the numbers of one that was not."""

import os
import signal
import subprocess
import sys
import time
import warnings

import numpy as np
import pytest

from weald import Checkpoint, Mixture, Status, save
from weald.datasets import make_blobs_overlapping
from weald.exceptions import PersistError, StatusWarning

FITS = {
    "em": {"inference": "em", "n_init": 3, "max_iter": 25, "tol": 1e-9},
    "vb": {"inference": "vb", "n_init": 2, "max_iter": 25, "tol": 1e-9},
    "sem": {"inference": "sem", "n_init": 2, "max_iter": 25},
    "gibbs": {"inference": "gibbs", "chains": 3, "draws": 14, "warmup": 6},
}
CHILD = """
import sys, time, warnings
sys.path[:0] = {path!r}
warnings.simplefilter("ignore")
from test_resume import blobs, FITS, Checkpoint, Mixture
def slowly(event):
    time.sleep(0.01)
Mixture(4, random_state=3, **FITS[{name!r}]).fit(blobs(), callbacks=[Checkpoint({file!r}, every=1), slowly])
"""


def blobs(seed=0):
    return make_blobs_overlapping(400, 2, 4, 2.5, seed).X


def fit(name, callbacks=(), resume=None, X=None, **changes):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StatusWarning)
        mix = Mixture(4, **{"random_state": 3, **FITS[name], **changes})
        return mix.fit(blobs() if X is None else X, callbacks=callbacks, resume=resume)


def same(a, b):
    for x, y in ((a.posterior_.draws, b.posterior_.draws), (a.posterior_.stats, b.posterior_.stats)):
        assert set(x) == set(y)
        for name in x:
            np.testing.assert_array_equal(x[name], y[name], err_msg=name)
    np.testing.assert_array_equal(a.labels_, b.labels_)
    np.testing.assert_array_equal(a.predict_proba(blobs()), b.predict_proba(blobs()))
    assert a.lower_bound_ == b.lower_bound_
    assert str(a.status_) == str(b.status_)
    return True


class Killed(Exception):
    pass


def killer(at):
    """Raise after `at` steps of the whole fit."""
    left = [at]

    def callback(event):
        left[0] -= event.phase == "step"
        if left[0] <= 0:
            raise Killed

    return callback


@pytest.mark.parametrize(("name", "every"), [("em", 1), ("vb", 4), ("sem", 3), ("gibbs", 1), ("gibbs", 4)])
def test_broken_off_at_any_sweep(tmp_path, name, every):
    whole, path = fit(name), tmp_path / "run.ckpt"
    steps = []
    fit(name, callbacks=[lambda event: steps.append(event.phase == "step") and None])
    for at in sorted({every + 1, sum(steps) // 2, sum(steps)}):
        path.unlink(missing_ok=True)
        with pytest.raises(Killed):
            fit(name, callbacks=[Checkpoint(path, every=every), killer(at)])
        if path.exists():
            assert same(whole, fit(name, resume=path))


@pytest.mark.parametrize("name", FITS)
def test_broken_off_again_and_again(tmp_path, name):
    whole, path, resume, rounds = fit(name), tmp_path / "run.ckpt", None, 0
    while True:
        try:
            mix = fit(name, callbacks=[Checkpoint(path, every=2), killer(5)], resume=resume)
        except Killed:
            resume, rounds = path, rounds + 1
            assert rounds < 100
        else:
            break
    assert rounds > 2
    assert same(whole, mix)


@pytest.mark.parametrize("name", FITS)
def test_resumed_after_its_end(tmp_path, name):
    path = tmp_path / "run.ckpt"
    whole = fit(name, callbacks=[Checkpoint(path)])
    assert same(whole, fit(name, resume=path))


@pytest.mark.parametrize("name", ["em", "sem", "gibbs"])
def test_killed_by_the_system(tmp_path, name):
    path = tmp_path / "run.ckpt"
    code = CHILD.format(path=[os.path.dirname(__file__), *sys.path], name=name, file=str(path))
    child = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE)
    try:
        while not path.exists():
            assert child.poll() is None, child.stderr.read().decode()
            time.sleep(0.005)
        time.sleep(np.random.default_rng().random() * 0.3)
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()
        child.stderr.close()
    assert same(fit(name), fit(name, resume=path))


def test_a_stopped_fit_goes_on(tmp_path):
    path = tmp_path / "run.ckpt"
    fit("em", callbacks=[Checkpoint(path), lambda event: event.sweep >= 6])
    assert same(fit("em"), fit("em", resume=path))


def test_another_fit_is_refused(tmp_path):
    path = tmp_path / "run.ckpt"
    fit("gibbs", callbacks=[Checkpoint(path)])
    others = [
        {"X": blobs(1)},
        {"X": blobs()[:-1]},
        {"X": blobs()[:, ::-1]},
        {"X": blobs().reshape(200, 4)},
        {"X": blobs().astype(np.float32)},
        {"random_state": 4},
        {"draws": 15},
        {"covariance": "diag"},
        {"prior": {"kappa": 0.5}},
        {"weight_concentration": 0.5},
    ]
    for other in others:
        with pytest.raises(PersistError, match="another fit"):
            fit("gibbs", resume=path, **other)
    with pytest.raises(PersistError, match="another fit"):
        fit("em", resume=path)


def test_other_weights_are_refused(tmp_path):
    path, w = tmp_path / "run.ckpt", np.ones(400)
    Mixture(4, random_state=0).fit(blobs(), sample_weight=w, callbacks=[Checkpoint(path)])
    with pytest.raises(PersistError, match="another fit"):
        Mixture(4, random_state=0).fit(blobs(), sample_weight=2 * w, resume=path)


def test_another_number_of_threads_is_welcome(tmp_path):
    """Results do not depend on n_jobs, so a run may go on on another machine."""
    path = tmp_path / "run.ckpt"
    with pytest.raises(Killed):
        fit("gibbs", callbacks=[Checkpoint(path, every=3), killer(20)], n_jobs=1)
    assert same(fit("gibbs"), fit("gibbs", resume=path, n_jobs=2))


def test_long_priors_are_told_apart(tmp_path):
    """Two priors that print alike (numpy abbreviates long arrays) are two priors."""
    rng = np.random.default_rng(0)
    X = rng.poisson(1.0, (30, 1_500)).astype(float)
    path = tmp_path / "run.ckpt"
    prior = np.full(1_500, 1.5)
    other = prior.copy()
    other[700] = 9.0

    def run(concentration, **kwargs):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", StatusWarning)
            mix = Mixture(2, family="multinomial", prior={"concentration": concentration}, random_state=0, max_iter=3)
            return mix.fit(X, **kwargs)

    run(prior, callbacks=[Checkpoint(path)])
    run(prior.copy(), resume=path)
    with pytest.raises(PersistError, match="another fit"):
        run(other, resume=path)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.999])
def test_a_truncated_checkpoint_is_refused(tmp_path, share):
    path = tmp_path / "run.ckpt"
    fit("gibbs", callbacks=[Checkpoint(path)])
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(PersistError, match=r"run\.ckpt"):
        fit("gibbs", resume=path)


def test_a_model_is_no_checkpoint(tmp_path):
    save(fit("em"), tmp_path / "model.weald")
    with pytest.raises(PersistError):
        fit("em", resume=tmp_path / "model.weald")
    with pytest.raises((PersistError, FileNotFoundError)):
        fit("em", resume=tmp_path / "nothing.weald")


def test_a_resumed_fit_has_a_status(tmp_path):
    path = tmp_path / "run.ckpt"
    with pytest.raises(Killed):
        fit("gibbs", callbacks=[Checkpoint(path, every=1), killer(30)])
    assert isinstance(fit("gibbs", resume=path).status_, Status)
