"""`import weald` is cheap, and brings nothing heavy with it."""

import json
import subprocess
import sys

import pytest

import weald

CODE = """
import sys, time
start = time.perf_counter()
import weald
seconds = time.perf_counter() - start
dir(weald)
names = ("numba", "sklearn", "scipy", "numpy", "jax", "matplotlib", "pandas", "pyarrow", "arviz")
heavy = [name for name in names if name in sys.modules]
import json
print(json.dumps([seconds, heavy]))
"""


def fresh(code):
    path = f"import sys; sys.path[:] = {sys.path!r}\n"
    done = subprocess.run([sys.executable, "-c", path + code], capture_output=True, text=True, check=True)
    return done.stdout


def test_import_is_fast_and_light():
    runs = [json.loads(fresh(CODE)) for _ in range(3)]
    assert min(seconds for seconds, _ in runs) < 0.5
    assert runs[0][1] == []


def test_the_core_needs_no_extra():
    """Where no optional package can be imported, estimators fit, predict, save and load all the same."""
    code = """
class Absent:
    names = ("jax", "matplotlib", "pandas", "pyarrow", "polars", "arviz", "typer", "rich", "jinja2", "dask")
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in self.names:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Absent())
import os, tempfile, numpy as np, weald
X = np.random.default_rng(0).normal(size=(40, 2))
mix = weald.Mixture(1, random_state=0).fit(X)
weald.NaiveBayes("mixed").fit(X.round(), X[:, 0] > 0).predict(X)
path = os.path.join(tempfile.mkdtemp(), "mix.weald")
weald.save(mix, path)
print((weald.load(path).predict(X) == mix.predict(X)).all())
"""
    assert fresh(code).strip() == "True"


def test_nothing_is_compiled_at_import():
    code = """
import numba.core.dispatcher as d
compiled = []
plain = d.Dispatcher.compile
d.Dispatcher.compile = lambda self, signature: compiled.append(self) or plain(self, signature)
import weald
weald.Mixture, weald.NaiveBayes
import weald.families, weald.assign._softmax
print(len(compiled))
"""
    assert fresh(code).strip() == "0"


def test_every_public_name_is_there():
    for name in weald.__all__:
        assert getattr(weald, name) is not None
    assert set(weald.__all__) <= set(dir(weald))


def test_unknown_names_are_attribute_errors():
    with pytest.raises(AttributeError, match="Mixtur"):
        _ = weald.Mixtur
