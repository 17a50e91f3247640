"""Topics of a corpus from texts to folder: read, count words, hold some documents out, fit, write and report.

    run/topics.parquet       topic, share of the tokens, documents where it leads, coherence, words, what sets it apart
    run/documents.parquet    row, [id], [date], topic, share, second_topic, second_share, n_words, log_probability
                             (of a word, given the document's topics), held_out
    run/proportions.parquet  row, [id], t0, t1, ...: expected proportions of topics
    run/words.parquet        topic, rank, word, probability, lift (against the corpus) of each topic's top words
    run/model.weald          the fitted `weald.LDA`, without k `weald.HDP`
    run/report.html          one file for people
    run/run.json             vocabulary, settings, evaluation, versions, command

A tenth of the documents, at most `MAX_HELD_OUT`, is not shown to the fit and judges it, where there are at least
`ENOUGH`; their topics are told like those of new documents. Half of the words of each are predicted from the other
half, by the topics and, for comparison, by the frequencies of words in the other documents.

    run = topics("corpus.jsonl", "run", TopicSettings(k=20, text="body"))
    run.model.topics_(5, run.counted.vocabulary.words)
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import weald
from weald._atomic import replacing
from weald._progress import Callback
from weald._typing import JSON, Array, FloatArray, IntArray, PathLike
from weald.app.corpus import Counted, count
from weald.app.prepare import changed
from weald.app.readers import write_table
from weald.app.runs import checkpointed, collected, command_line, folder_for, plain, provenance, write_record
from weald.app.texts import Fields
from weald.app.topic_tables import log_probability, tables_of
from weald.app.wording import MAX_FEATURES, Pruning
from weald.exceptions import ParameterError, Status
from weald.topics import Topics, heldout
from weald.topics.corpus import Corpus

WITH_K = ("gibbs", "online-vb", "vb", "em")
WITHOUT_K = ("gibbs", "svi")
FORMATS = ("parquet", "csv", "tsv")
MAX_HELD_OUT, ENOUGH = 1000, 100  # documents
GIBBS_WORDS = 30_000_000


@dataclass(frozen=True)
class TopicSettings:
    """What to do with a corpus: the options of ``weald topics``.

    Parameters
    ----------
    k : int, optional
        Number of topics: `weald.LDA`. Without it `weald.HDP`, which finds the number.
    text, id, date : str
        Columns with the text, names of documents, and dates or years.
    inference : str
        ``"gibbs"``, ``"online-vb"``, ``"vb"`` or ``"em"`` with k; ``"gibbs"`` or ``"svi"`` without. ``"auto"`` is gibbs
        for up to `GIBBS_WORDS` words counted, beyond online-vb or svi.
    words : int
        Words shown of each topic.
    stop_words, min_df, max_df, max_features
        As in `weald.app.wording.Pruning`.
    seed : int
        Seed.
    max_iter : int, optional
        Most sweeps or passes; of gibbs, half of them are warmup.
    """

    k: int | None = None
    text: str = "text"
    id: str | None = None
    date: str | None = None
    inference: str = "auto"
    words: int = 10
    stop_words: str = "english"
    min_df: float | None = None
    max_df: float | None = None
    max_features: int = MAX_FEATURES
    seed: int = 0
    max_iter: int | None = None

    def __post_init__(self) -> None:
        for name, least in (("k", 1), ("words", 2), ("seed", 0), ("max_iter", 2)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise ParameterError(f"{name} must be at least {least}, got {value}")
        known = WITHOUT_K if self.k is None else WITH_K
        if self.inference not in ("auto", *known):
            raise ParameterError(
                f"inference must be one of auto, {', '.join(WITH_K)} with k, or auto, {', '.join(WITHOUT_K)} without; "
                f"got {self.inference!r} {'without k' if self.k is None else f'with k {self.k}'}"
            )
        self.pruning  # noqa: B018 -- refuses what makes no sense

    @property
    def pruning(self) -> Pruning:
        """Which words to leave out."""
        return Pruning(self.stop_words, self.min_df, self.max_df, self.max_features)

    @property
    def fields(self) -> Fields:
        """What to read."""
        return Fields(self.text, self.id, self.date)


@dataclass(frozen=True)
class Fitness:
    """How well the topics predict and hang together.

    Parameters
    ----------
    n_held_out : int
        Documents that judged.
    perplexity, unigram : float or None
        Of their second halves: by the topics, by the frequencies of words alone; None without held-out documents.
    coherence : (K,) array
        NPMI of the top ten words of each topic, over all documents.
    """

    n_held_out: int
    perplexity: float | None
    unigram: float | None
    coherence: FloatArray


@dataclass(frozen=True)
class TopicRun:
    """Topics that were found, and all that is needed to report them.

    Parameters
    ----------
    source : str
        Where the texts came from.
    out : Path
        The folder of the run.
    settings : TopicSettings
        What was asked.
    counted : Counted
        What the model read.
    held_out : bool array of shape (n,)
        Documents that the fit did not see.
    model : LDA or HDP
        The fitted model.
    proportions : array of shape (n, K)
        Expected proportions of topics.
    log_probability : array of shape (n,)
        Mean log probability of a word of each document under its proportions; NaN without words.
    fitness : Fitness
        How good it is.
    notes : tuple of str
        What to know about the data.
    seconds : float
        Time of the fit.
    """

    source: str
    out: Path
    settings: TopicSettings
    counted: Counted
    held_out: Array
    model: Any
    proportions: FloatArray
    log_probability: FloatArray
    fitness: Fitness
    notes: tuple[str, ...]
    seconds: float

    @property
    def n_topics(self) -> int:
        """How many topics there are."""
        return int(self.proportions.shape[1])

    @property
    def leading(self) -> IntArray:
        """(n,): the topic with the largest share of each document."""
        return np.asarray(self.proportions.argmax(axis=1))

    @property
    def found(self) -> str:
        """How many topics there are, for people."""
        text = "One topic" if self.n_topics == 1 else f"{self.n_topics:,} topics"
        return text if self.interval is None else "{} (95 % interval {} to {})".format(text, *self.interval)

    @property
    def interval(self) -> tuple[int, int] | None:
        """The 95 % interval of the number of topics; None where it was given, or not sampled."""
        if self.settings.k is not None or self.model.inference != "gibbs":
            return None
        low, high = self.model.n_topics_interval_
        return int(low), int(high)

    @property
    def status(self) -> Status:
        """The verdict on the fit."""
        status: Status = self.model.status_
        return status

    @property
    def command(self) -> str:
        """The command line that repeats this run."""
        return command_line("topics", self.source, self.out, changed(self.settings))

    @property
    def python(self) -> str:
        """The Python lines that repeat this run."""
        options = ", ".join(f"{name}={value!r}" for name, value in changed(self.settings).items())
        return (
            "import weald\nfrom weald.app.topics import TopicSettings, topics\n\n"
            f"run = topics({self.source!r}, {str(self.out)!r}, TopicSettings({options}))\n"
            f"model = weald.load({str(self.out / 'model.weald')!r})\n"
            f"model.topics_({self.settings.words}, run.counted.vocabulary.words)"
        )


def topics(
    data: PathLike,
    out: PathLike,
    settings: TopicSettings,
    *,
    tables: str = "parquet",
    callbacks: Sequence[Callback] = (),
    resume: bool = False,
) -> TopicRun:
    """Find the topics of a corpus and write the folder `out`.

    Parameters
    ----------
    data : path or str
        What `weald.app.texts.read_texts` reads.
    out : path or str
        The folder to write; files of an earlier run there are replaced.
    settings : TopicSettings
        What to do.
    tables : str
        Format of the tables: ``"parquet"``, ``"csv"`` or ``"tsv"``.
    callbacks : sequence of callables
        Told of each sweep.
    resume : bool
        Go on from the checkpoint that an interrupted run left in `out`, where there is one.

    Returns
    -------
    TopicRun
    """
    from weald.app import report

    report.check_extras()
    if tables not in FORMATS:
        raise ParameterError(f"tables must be one of {', '.join(FORMATS)}; got {tables!r}")
    counted = count(data, settings.fields, settings.pruning)
    held_out = some_held_out(np.diff(counted.X.indptr), settings.seed)
    out, notes, started = folder_for(out), list(counted.notes), time.perf_counter()
    with collected(notes):
        model = make_model(settings, int(counted.X.sum()))
        checkpointed(model, counted.X[~held_out], out, callbacks, resume)
    proportions = model.transform(counted.X)
    run = TopicRun(
        source=str(data), out=out, settings=settings, counted=counted, held_out=held_out, model=model,
        proportions=proportions, log_probability=log_probability(counted.X, proportions, model.components_),
        fitness=judge(model, counted.X, held_out), notes=tuple(notes), seconds=time.perf_counter() - started,
    )  # fmt: skip
    write_run(run, tables)
    return run


def some_held_out(n_words: IntArray, seed: int) -> Array:
    """(n,) bool: a tenth of the documents that have two words or more; none where there are few."""
    able = np.flatnonzero(n_words >= 2)
    n = 0 if len(able) < ENOUGH else min(len(able) // 10, MAX_HELD_OUT)
    chosen = np.zeros(len(n_words), bool)
    chosen[np.random.default_rng(seed).choice(able, n, replace=False)] = True
    return chosen


def make_model(settings: TopicSettings, n_words: int) -> Any:
    """The estimator that the settings ask for, not yet fitted."""
    inference = settings.inference
    if inference == "auto":
        inference = "gibbs" if n_words <= GIBBS_WORDS else "svi" if settings.k is None else "online-vb"
    options: dict[str, Any] = {"inference": inference, "random_state": settings.seed}
    if settings.max_iter is not None:
        half = settings.max_iter // 2
        sweeps = {"draws": settings.max_iter - half, "warmup": half}
        options |= sweeps if inference == "gibbs" else {"max_iter": settings.max_iter}
    return weald.HDP(**options) if settings.k is None else weald.LDA(settings.k, **options)


def judge(model: Any, X: Any, held_out: Array) -> Fitness:
    """Coherence over all documents, perplexity of those that the fit has not seen."""
    n_words = min(10, X.shape[1])
    coherence = model.coherence_(X, n_words=n_words) if n_words > 1 else np.full(len(model.components_), np.nan)
    if not held_out.any():
        return Fitness(0, None, None, coherence)
    test = X[held_out]
    frequencies = np.asarray(X[~held_out].sum(axis=0), np.float64).ravel() + 0.5
    unigram = Topics((frequencies / frequencies.sum())[None], np.ones(1))
    corpus = Corpus(test.indptr, test.indices, test.data, test.shape[1])
    baseline = heldout.perplexity(*heldout.completion(unigram, corpus, np.random.default_rng(0)))
    return Fitness(int(held_out.sum()), model.perplexity(test), baseline, coherence)


def write_run(run: TopicRun, tables: str) -> None:
    """Write the files of a run, run.json last."""
    from weald.app import topics_report

    weald.save(run.model, run.out / "model.weald")
    for name, columns in tables_of(run).items():
        write_table(run.out / f"{name}.{tables}", columns)
    with replacing(run.out / "report.html") as sink:
        sink.write(topics_report.render(run).encode())
    write_record(run.out, record(run))


def record(run: TopicRun) -> dict[str, JSON]:
    """The contents of run.json."""
    fitness, about = run.fitness, provenance(run.source, run.counted.n_documents, run.status, run.seconds, run.command)
    evaluation: dict[str, JSON] = {
        "held_out_documents": fitness.n_held_out,
        "perplexity": fitness.perplexity,
        "unigram_perplexity": fitness.unigram,
        "coherence_npmi": json.loads(json.dumps([round(float(c), 6) for c in fitness.coherence])),
    }
    return about | {
        "kind": "topics",
        "settings": plain(run.settings),
        "n_topics": run.n_topics,
        "evaluation": evaluation,
        "vocabulary": plain(run.counted.vocabulary),
    }
