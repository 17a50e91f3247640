"""The command line, in this process and as a true one."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import weald
from weald.app.commands import app
from weald.app.predict import load_run
from weald.app.readers import read_table, write_table


def invoke(*words, **options):
    return CliRunner().invoke(app, [str(word) for word in words], **options)


@pytest.fixture(scope="module")
def out(blobs, tmp_path_factory):
    out = tmp_path_factory.mktemp("cli") / "run"
    result = invoke("cluster", blobs, "--k", 3, "--out", out, "--id", "who", "--label", "truth", "--n-init", 1)
    assert result.exit_code == 0, result.output
    assert "3 clusters in 240 rows" in result.stdout
    assert str(out / "report.html") in result.stdout
    return out


def test_version():
    result = invoke("--version")
    assert (result.exit_code, result.stdout) == (0, f"weald {weald.__version__}\n")


def test_predict_labels_new_rows(out, blobs, tmp_path):
    result = invoke("predict", out, blobs, "-o", tmp_path / "labels.parquet")
    assert result.exit_code == 0
    assert "240 rows labelled" in result.stdout
    new, old = read_table(tmp_path / "labels.parquet"), read_table(out / "labels.parquet")
    np.testing.assert_array_equal(new.columns["cluster"], old.columns["cluster"])


def test_without_k_the_number_is_found_and_told(blobs, tmp_path):
    words = ["--covariance", "diag", "--exclude", "truth", "--id", "who", "--max-iter", 40, "--prior", "pitman-yor"]
    result = invoke("cluster", blobs, *words, "--out", tmp_path / "run")
    assert result.exit_code == 0, result.output
    assert re.match(r"3 clusters \(95 % interval 3 to \d\) in 240 rows; 100 % of rows", result.stdout)
    command = json.loads((tmp_path / "run" / "run.json").read_text())["command"]
    assert "--prior pitman-yor" in command
    assert "--k" not in command
    before = read_table(tmp_path / "run" / "labels.parquet")
    assert invoke(*shlex.split(command)[1:]).exit_code == 0
    after = read_table(tmp_path / "run" / "labels.parquet")
    np.testing.assert_array_equal(before.columns["uncertainty"], after.columns["uncertainty"])


def test_the_command_in_the_report_repeats_the_run(blobs, tmp_path):
    write_table(
        tmp_path / "t.csv", {'a, "b"': np.r_[np.zeros(9), np.ones(9)], "c d": np.arange(18.0) ** 2, "e": np.ones(18)}
    )
    first = invoke("cluster", tmp_path / "t.csv", "--k", 2, "--out", tmp_path / "run", "--columns", '"a, ""b""",c d')
    assert first.exit_code == 0, first.output
    features, _ = load_run(tmp_path / "run")
    assert features.names == ('a, "b"', "c d")
    command = json.loads((tmp_path / "run" / "run.json").read_text())["command"]
    before = read_table(tmp_path / "run" / "labels.parquet")
    again = invoke(*shlex.split(command)[1:])
    assert again.exit_code == 0, again.output
    after = read_table(tmp_path / "run" / "labels.parquet")
    for name in before.names:
        np.testing.assert_array_equal(before.columns[name], after.columns[name])


def test_labels_format_and_standard_input(blobs, tmp_path):
    words = ["--k", 2, "--out", tmp_path, "--labels-format", "csv", "--exclude", "who,truth", "--n-init", 1]
    result = invoke("cluster", "-", *words, input=blobs.read_bytes())
    assert result.exit_code == 0, result.output
    assert (tmp_path / "labels.csv").read_text().startswith('"row","cluster"')


ERRORS = {
    "em without k": (["cluster", "{blobs}", "--inference", "em"], "em, sem, gibbs, vb with k"),
    "prior with k": (["cluster", "{blobs}", "--k", "2", "--prior", "mfm"], "leave out k or prior"),
    "k of zero": (["cluster", "{blobs}", "--k", "0"], "k must be at least 1"),
    "no file": (["cluster", "nowhere.csv", "--k", "2"], "there is no file nowhere.csv"),
    "typo": (["cluster", "{blobs}", "--k", "2", "--columns", "x0,xx1"], "did you mean 'x1'"),
    "text": (["cluster", "{blobs}", "--k", "2"], "--id who"),
    "family": (["cluster", "{blobs}", "--k", "2", "--family", "gauss"], "family must be one of auto, gaussian"),
    "too many": (["cluster", "{blobs}", "--k", "999", "--exclude", "who,truth"], "n_components=999"),
    "no run": (["predict", "nowhere", "{blobs}", "-o", "l.csv"], "no finished run"),
    "suffix": (["predict", "{out}", "{blobs}", "-o", "l.docx"], "must end in"),
}


@pytest.mark.parametrize("case", ERRORS)
def test_errors_are_one_line_with_status_two(case, blobs, out, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words, message = ERRORS[case]
    result = invoke(*[word.format(blobs=blobs, out=out) for word in words])
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stderr.startswith("weald: ")
    assert result.stderr.count("\n") == 1
    assert result.stdout == ""
    traced = invoke("--debug", *[word.format(blobs=blobs, out=out) for word in words])
    assert traced.exit_code == 2
    assert "Traceback" in traced.stderr


def test_unexpected_errors_are_told_apart(blobs, tmp_path, monkeypatch):
    import weald.app.cluster

    def broken(*words, **options):
        raise RuntimeError("two\nlines")

    monkeypatch.setattr(weald.app.cluster, "cluster", broken)
    result = invoke("cluster", blobs, "--k", 2, "--out", tmp_path)
    assert result.exit_code == 1
    assert result.stderr == "weald: two lines (unexpected RuntimeError; weald --debug shows where)\n"


def test_interrupt_is_quiet(blobs, tmp_path, monkeypatch):
    import weald.app.cluster

    def interrupted(*words, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(weald.app.cluster, "cluster", interrupted)
    result = invoke("cluster", blobs, "--k", 2, "--out", tmp_path)
    assert result.exit_code == 130
    assert "--resume" in result.stderr


def test_progress_bar_moves_on_a_terminal(blobs, tmp_path, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    words = ["cluster", blobs, "--k", 2, "--out", tmp_path, "--exclude", "who,truth", "--n-init", 1]
    assert "sweeps" in invoke(*words).stderr
    assert invoke(*words, "--no-progress").stderr == ""


ENVIRONMENT = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": str(Path(weald.__file__).parents[1])}


def run_process(words, tmp_path, **options):
    command = [sys.executable, *map(str, words)]
    return subprocess.run(
        command, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, timeout=120, **options
    )


def test_true_process_runs_the_demo(tmp_path):
    result = run_process(["-m", "weald.app.cli", "demo"], tmp_path)
    assert result.returncode == 0, result.stderr
    assert "report   weald-demo/report.html" in result.stdout
    assert "without --k" in result.stdout
    assert result.stderr == ""
    assert (tmp_path / "weald-demo" / "report.html").exists()


def test_true_process_without_typer_names_the_extra(tmp_path):
    code = "import sys; sys.modules['typer'] = None; from weald.app.cli import main; main()"
    result = run_process(["-c", code], tmp_path)
    assert result.returncode == 2
    assert "the command line needs typer; install it with: pip install 'weald[app]'" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_true_process_is_interrupted_between_checkpoints(blobs, tmp_path):
    code = "import weald.app.runs as r; r.CHECKPOINT_SECONDS = 0.05; from weald.app.cli import main; main()"
    options = "--k 3 --inference gibbs --covariance diag --exclude who,truth --out run --max-iter 100000"
    command = [sys.executable, "-c", code, "cluster", str(blobs), *options.split()]
    checkpoint, deadline = tmp_path / "run" / "checkpoint.weald", time.monotonic() + 60
    with subprocess.Popen(command, cwd=tmp_path, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True) as process:
        while process.poll() is None and not checkpoint.exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130
    assert stderr.startswith("weald: interrupted")
    assert "Traceback" not in stderr
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["checkpoint.weald"]
