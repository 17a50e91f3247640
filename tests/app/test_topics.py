"""From texts to folder and back: tables, model, record, report, prediction, resumption, and the command."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import replace

import numpy as np
import pytest
from page import Page, words
from typer.testing import CliRunner

import weald
from weald.app import report, runs, topics_report
from weald.app.commands import app
from weald.app.predict import predict
from weald.app.readers import read_table, write_table
from weald.app.topic_tables import log_probability, shares
from weald.app.topics import TopicSettings, topics
from weald.exceptions import DataError, ParameterError, PersistError, Status, Verdict

THEMES = (
    "oven butter flour garlic onion recipe salt pepper soup bake",
    "ship harbour sail captain tide anchor crew storm cargo deck",
    "garden soil seed rose prune compost weed bulb hedge blossom",
)
SETTINGS = TopicSettings(k=3, text="body", id="key", date="day", inference="online-vb", words=6)
HOSTILE = "</p><script>alert(1)</script><img src=x onerror=alert(2)> $a_{b} \\frac"


def invoke(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def write_lines(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def documents(n, seed):
    """Texts of one theme each, with strays from another, over the years 2000 to 2009."""
    rng = np.random.default_rng(seed)
    for i in range(n):
        pair = rng.choice(3, size=2, replace=False)
        drawn = [rng.choice(THEMES[theme].split(), size) for theme, size in zip(pair, (24, 3), strict=True)]
        yield {
            "body": " ".join(np.concatenate(drawn)),
            "key": f"d{i:03d}",
            "day": f"{2000 + i % 10}-05-01",
            "theme": pair[0],
        }


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    rows = [{**row, "theme": int(row["theme"])} for row in documents(200, 0)]
    rows[7] |= {"body": HOSTILE + " " + rows[7]["body"], "key": "<i>hostile</i>", "day": None}
    rows[9]["body"] = None
    return write_lines(tmp_path_factory.mktemp("corpus") / "<b>corpus.jsonl", rows)


@pytest.fixture(scope="module")
def run(corpus, tmp_path_factory):
    return topics(corpus, tmp_path_factory.mktemp("run") / "out", SETTINGS)


def table(run, name, suffix="parquet"):
    return read_table(run.out / f"{name}.{suffix}").columns


def test_folder_holds_tables_model_report_and_record(run, corpus):
    names = {f"{name}.parquet" for name in ("topics", "documents", "proportions", "words")}
    assert {path.name for path in run.out.iterdir()} == names | {"model.weald", "report.html", "run.json"}
    themes = [json.loads(line)["theme"] for line in corpus.read_text().splitlines()]
    told, theta = table(run, "documents"), read_table(run.out / "proportions.parquet", ["t0", "t1", "t2"]).numeric()
    assert " ".join(told) == (
        "row key date topic share second_topic second_share n_words log_probability held_out"
    )  # fmt: skip
    assert told["key"][:2].tolist() == ["d000", "d001"]
    assert str(told["date"][1])[:10] == "2001-05-01"
    assert weald.metrics.purity(np.delete(themes, 9), np.delete(told["topic"], 9)) == 1
    np.testing.assert_allclose(theta.sum(axis=1), 1)
    np.testing.assert_array_equal(theta.argmax(axis=1), told["topic"])
    np.testing.assert_array_equal(told["held_out"], run.held_out)
    assert run.held_out.sum() == 19
    assert told["n_words"][9] == 0
    assert np.isnan(told["log_probability"][9])
    model = weald.load(run.out / "model.weald")
    np.testing.assert_allclose(model.transform(run.counted.X), theta)


def test_tables_of_topics_and_words_agree_with_the_model(run):
    told, words = table(run, "topics"), table(run, "words")
    np.testing.assert_allclose(told["share"], run.model.topic_sizes_)
    assert told["n_documents"].sum() == 200
    assert [set(line.split()) < set(theme.split()) for line in told["words"] for theme in THEMES].count(True) == 3
    assert all(len(line.split()) == 6 for line in told["words"])
    assert (told["coherence"] > 0.2).all()
    first = words["topic"] == 0
    assert words["word"][first][:6].tolist() == told["words"][0].split()
    assert (np.diff(words["probability"][first]) <= 0).all()
    assert words["rank"][first][0] == 1
    assert words["lift"][first][0] > 2


def test_record_holds_what_repeats_and_judges_the_run(run):
    record = json.loads((run.out / "run.json").read_text())
    assert record["kind"] == "topics"
    assert record["source"]["rows"] == 200
    assert record["vocabulary"]["words"] == list(run.counted.vocabulary.words)
    told = record["evaluation"]
    assert told["held_out_documents"] == 19
    assert told["perplexity"] < 0.8 * told["unigram_perplexity"]
    assert len(told["coherence_npmi"]) == 3
    assert shlex.split(record["command"])[:2] == ["weald", "topics"]


def test_the_command_and_the_python_lines_repeat_the_run(run, tmp_path):
    words = shlex.split(json.loads((run.out / "run.json").read_text())["command"])[1:]
    words[-1] = str(tmp_path / "command")
    result = invoke(*words)
    assert result.exit_code == 0, result.output
    assert re.match(r"3 topics in 200 documents; held-out perplexity \d+ \(unigram \d+\)\n     0 ", result.stdout)
    assert "note: 1 of 200 documents have no text (null)" in result.stderr
    scope = {}
    exec(run.python.replace(str(run.out), str(tmp_path / "python")), scope)
    for name in ("topics", "documents", "proportions", "words"):
        first = (run.out / f"{name}.parquet").read_bytes()
        assert (tmp_path / "command" / f"{name}.parquet").read_bytes() == first
        assert (tmp_path / "python" / f"{name}.parquet").read_bytes() == first
    html = (run.out / "report.html").read_text()
    assert topics_report.render(run) == html


def test_predict_tells_the_topics_of_new_documents(run, tmp_path):
    rows = [{"body": theme, "key": i} for i, theme in enumerate(THEMES)] + [{"body": "zebra", "key": 3}]
    path = write_lines(tmp_path / "new.jsonl", [*rows, {"body": None, "key": 4}])
    columns = predict(run.out, path, tmp_path / "out.parquet")
    told = read_table(tmp_path / "out.parquet").columns
    assert set(told) == set(columns)
    assert told["key"].tolist() == [0, 1, 2, 3, 4]
    assert sorted(told["topic"][:3]) == [0, 1, 2]
    assert (told["share"][:3] > 0.8).all()
    np.testing.assert_allclose([told[f"t{k}"][3] for k in range(3)], run.model.alpha_ / run.model.alpha_.sum())
    assert told["n_words"].tolist() == [10, 10, 10, 0, 0]
    result = invoke("predict", run.out, path, "-o", tmp_path / "again.csv")
    assert result.stdout == f"5 documents in {tmp_path / 'again.csv'}\n"


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_predict_does_without_the_id(run, tmp_path, suffix):
    path = tmp_path / f"new.{suffix}"
    if suffix == "csv":
        write_table(path, {"body": np.array(THEMES, object)})
    else:
        write_lines(path, [{"body": theme} for theme in THEMES])
    columns = predict(run.out, path, tmp_path / "out.csv")
    assert "key" not in columns
    assert sorted(columns["topic"]) == [0, 1, 2]
    write_table(tmp_path / "bad.csv", {"key": np.arange(3)})
    with pytest.raises(DataError, match="no column 'body'"):
        predict(run.out, tmp_path / "bad.csv", tmp_path / "out.csv")


def test_a_run_over_a_folder_predicts_folders_and_few_documents_are_not_held_out(tmp_path):
    folder = tmp_path / "texts"
    folder.mkdir()
    for i, theme in enumerate(THEMES * 4):
        (folder / f"{i:02d}.txt").write_text(theme)
    run = topics(folder, tmp_path / "run", TopicSettings(k=2, inference="online-vb"), tables="csv")
    assert table(run, "documents", "csv")["file"][0] == "00.txt"
    assert run.fitness.perplexity is None
    assert "too few to hold some out" in words((run.out / "report.html").read_text())
    assert json.loads((run.out / "run.json").read_text())["evaluation"]["perplexity"] is None
    columns = predict(run.out, folder, tmp_path / "l.csv")
    np.testing.assert_allclose(columns["t0"], run.proportions[:, 0])


def test_report_tells_everything_and_is_reproducible(run):
    html = (run.out / "report.html").read_text()
    text = words((run.out / "report.html").read_text())
    assert f"against {run.fitness.unigram:,.0f} without topics" in text
    for heading in (
        "Topics",
        "Words and documents",
        "Over time",
        "How good are they?",
        "Convergence",
        "How it was made",
    ):
        assert heading in text
    assert "How many topics?" not in text
    assert "1 document without a date is left out" in text
    assert "in the documents of each year, by day" in text
    for topic in run.model.topics_(6, run.counted.vocabulary.words):
        assert all(word in text for word in topic)
    assert run.command in text
    assert "online variational Bayes" in text
    page = Page(html)
    assert page.open == []


@pytest.mark.parametrize("inference", ["gibbs", "svi"])
def test_without_k_the_number_is_found_and_told(corpus, tmp_path, inference):
    sweeps = 300 if inference == "gibbs" else None
    run = topics(corpus, tmp_path, replace(SETTINGS, k=None, inference=inference, max_iter=sweeps))
    text = words((tmp_path / "report.html").read_text())
    assert "The number was not given: it was found" in text
    assert "hierarchical Dirichlet process" in text
    assert len(run.proportions.T) == run.model.n_topics_
    if inference == "gibbs":
        assert run.n_topics == 3
        assert run.found.startswith("3 topics (95 % interval 3 to ")
        assert f"{run.interval[1]} topics hold 99 %" in text
    else:
        assert "95 % interval" not in text
        assert "gives one number and no interval" in text
    assert "--k" not in json.loads((tmp_path / "run.json").read_text())["command"]


def test_typical_documents_are_of_the_topic_and_long_enough(run):
    best = topics_report._typical(run)
    for k, rows in enumerate(best):
        assert 1 <= len(rows) <= 3
        assert (run.leading[rows] == k).all()
        assert (run.proportions[rows, k] > 0.8).all()


def test_hostile_text_is_only_text(run):
    shown = topics_report.view(run)
    shown["topics"][0]["documents"] = [topics_report._document(run, 7, 1.0)]
    html = topics_report.page("topics.html.j2", shown)
    page = Page(html)
    assert page.open == []
    assert not {"script", "img", "iframe", "object", "link"} & set(page.tags)
    assert not [name for _, name, _ in page.attributes if name.startswith("on")]
    assert "<script" not in html
    assert "<img" not in html
    text = words(html)
    assert "<script>alert(1)</script>" in text
    assert "<i>hostile</i>" in text
    assert "<b>corpus.jsonl" in text


def test_an_unescaped_template_would_be_caught(run):
    """The injected bug: with escaping off, the checks above must fail."""
    import jinja2

    folder = topics_report.Path(topics_report.__file__).parent / "templates"
    pages = jinja2.Environment(loader=jinja2.FileSystemLoader(folder), autoescape=False)
    pages.filters |= {"number": topics_report.number, "percent": report.percent}
    shown = topics_report.view(run)
    shown["topics"][0]["documents"] = [topics_report._document(run, 7, 1.0)]
    assert "<script>alert(1)" in pages.get_template("topics.html.j2").render(shown)


def test_nothing_is_fetched_and_nothing_runs(run):
    html = (run.out / "report.html").read_text()
    page = Page(html)
    assert "default-src 'none'" in html
    for tag, name, value in page.attributes:
        if name in ("src", "href", "xlink:href", "action", "data", "poster"):
            assert value.startswith(("#", "data:image/png;base64,")), (tag, name, value[:80])
    assert not re.search(r"url\((?!#)|@import", html)
    ids = [value for _, name, value in page.attributes if name == "id"]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize(
    ("dates", "unit", "n_missing"),
    [
        (["2000-01-01", "2007-01-01", None], "year", 1),
        (["2000-01-01", "2000-08-01", "2001-01-01"], "month", 0),
        (["2000-01-01", "2000-01-09", "2000-02-01"], "day", 0),
    ],
)
def test_time_goes_by_the_coarsest_unit_that_gives_some_periods(run, dates, unit, n_missing):
    cells = np.resize(np.array(dates, "datetime64[s]"), 200)
    told = topics_report._times(replace(run, counted=replace(run.counted, dates=cells)))
    assert (told["unit"], told["n_missing"] > 0) == (unit, n_missing > 0)
    assert told["figure"]


def test_time_without_dates_and_at_one_moment(run):
    def times(dates):
        return topics_report._times(replace(run, counted=replace(run.counted, dates=dates)))

    assert times(None) is None
    assert times(np.full(200, "NaT", "datetime64[s]")) is None
    assert times(np.full(200, "2000-01-01", "datetime64[s]"))["figure"] is None


def test_caution_and_topics_that_predict_nothing_are_told(run):
    status = Status(Verdict.CAUTION, "stopped early", ("raise <max_iter>",), {"rise_per_word": 0.5})
    model = type("Model", (), {})()
    model.__dict__ |= {name: getattr(run.model, name) for name in dir(run.model) if not name.startswith("__")}
    model.status_ = status
    useless = replace(run, model=model, fitness=replace(run.fitness, perplexity=99.0, unigram=98.0))
    text = words(topics_report.render(useless))
    assert "Use with caution. Stopped early." in text
    assert "raise <max_iter>" in text
    assert "predict no better than no topics" in text


@pytest.mark.parametrize("k", [1, 2])
def test_one_topic_and_two(corpus, tmp_path, k):
    run = topics(corpus, tmp_path, replace(SETTINGS, k=k, date=None))
    assert run.n_topics == k
    assert ("One topic" if k == 1 else "2 topics") in words((tmp_path / "report.html").read_text())
    if k == 1:
        assert (table(run, "documents")["second_topic"] == -1).all()


def test_log_probability_and_shares_by_hand():
    import scipy.sparse as sp

    X = sp.csr_array(np.array([[2, 0, 1], [0, 0, 0]]))
    theta, phi = np.array([[0.5, 0.5], [0.1, 0.9]]), np.array([[0.5, 0.25, 0.25], [0.1, 0.1, 0.8]])
    expected = (2 * np.log(0.3) + np.log(0.525)) / 3
    np.testing.assert_allclose(log_probability(X, theta, phi), [expected, np.nan])
    told = shares(theta)
    assert told["topic"].tolist() == [0, 1]
    assert told["second_topic"].tolist() == [1, 0]
    assert told["second_share"].tolist() == [0.5, 0.1]


@pytest.mark.parametrize(("k", "inference"), [(3, "online-vb"), (3, "gibbs"), (None, "gibbs")])
def test_an_interrupted_run_keeps_a_checkpoint_and_goes_on(corpus, tmp_path, monkeypatch, k, inference):
    monkeypatch.setattr(runs, "CHECKPOINT_SECONDS", 1e-9)
    settings = replace(SETTINGS, k=k, inference=inference, max_iter=20)
    whole = topics(corpus, tmp_path / "whole", settings)

    def stop(event):
        if event.sweep == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        topics(corpus, tmp_path / "part", settings, callbacks=[stop])
    assert [path.name for path in (tmp_path / "part").iterdir()] == ["checkpoint.weald"]
    seen = []
    again = topics(corpus, tmp_path / "part", settings, callbacks=[lambda event: seen.append(event)], resume=True)
    assert min(event.sweep for event in seen if event.phase == "step" and event.chain == 0) == 3
    np.testing.assert_array_equal(again.proportions, whole.proportions)
    assert not (tmp_path / "part" / "checkpoint.weald").exists()


def test_a_wrong_call_leaves_an_earlier_run_alone(run, corpus, tmp_path):
    before = (run.out / "run.json").read_bytes()
    with pytest.raises(DataError, match=r"no column 'boddy'; did you mean 'body'"):
        topics(corpus, run.out, replace(SETTINGS, text="boddy"))
    with pytest.raises(DataError, match="'key' holds 'd000', which is no date"):
        topics(corpus, run.out, replace(SETTINGS, date="key"))
    with pytest.raises(ParameterError, match="tables must be one of"):
        topics(corpus, run.out, SETTINGS, tables="xlsx")
    assert (run.out / "run.json").read_bytes() == before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"k": 0}, "k must be at least 1"),
        ({"k": 3, "inference": "svi"}, "got 'svi' with k 3"),
        ({"inference": "em"}, "got 'em' without k"),
        ({"min_df": -1}, "min_df must be positive"),
        ({"words": 1}, "words must be at least 2"),
    ],
)
def test_settings_refuse_what_makes_no_sense(options, message):
    with pytest.raises(ParameterError, match=message):
        TopicSettings(**options)


def test_ids_that_look_like_our_columns_are_renamed(tmp_path):
    texts = np.array(THEMES * 5, object)
    for name in ("topic", "t1"):
        write_table(tmp_path / "t.csv", {"text": texts, name: np.arange(15)})
        run = topics(tmp_path / "t.csv", tmp_path / "run", TopicSettings(k=2, id=name, inference="online-vb"))
        np.testing.assert_array_equal(table(run, "proportions")[f"input_{name}"], np.arange(15))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["{corpus}"], "no column 'text'; the columns are: body, key, day, theme"),
        (["{corpus}", "--text", "theme"], "not text; fields with text: 'body', 'key', 'day'"),
        (["nowhere.jsonl"], "there is no file nowhere.jsonl"),
        (["{corpus}", "--text", "body", "--stop-words", "klingon"], "cannot read 'klingon'"),
        (["{corpus}", "--text", "body", "--k", "2", "--inference", "svi"], "inference must be one of"),
    ],
)
def test_errors_of_the_command_are_one_line(corpus, tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    result = invoke("topics", *[word.format(corpus=corpus) for word in words])
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
    assert result.stdout == ""


def test_damaged_records_are_told(run, corpus, tmp_path):
    record = json.loads((run.out / "run.json").read_text())
    del record["vocabulary"]["words"]
    (tmp_path / "run.json").write_text(json.dumps(record))
    with pytest.raises(PersistError, match="is damaged"):
        predict(tmp_path, corpus, tmp_path / "l.csv")


def test_progress_bar_moves_on_a_terminal(corpus, tmp_path, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    call = ["topics", corpus, "--text", "body", "--k", 2, "--inference", "online-vb", "--out", tmp_path]
    assert "sweeps" in invoke(*call).stderr
    assert "sweeps" not in invoke(*call, "--quiet").stderr
