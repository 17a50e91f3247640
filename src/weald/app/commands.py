"""The commands of `weald`: options in, one call into `weald.app`, words out.

Results go to standard output, progress, notes and errors to standard error. Heavy imports wait until a command runs.
"""

from __future__ import annotations

import csv
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from weald.exceptions import WealdError

if TYPE_CHECKING:
    from weald._progress import Event
    from weald.app.cluster import Run
    from weald.app.topics import TopicRun

Quiet = Annotated[bool, typer.Option("--no-progress", "--quiet", "-q", help="Show no progress bar.")]


def _version(wanted: bool) -> None:
    if wanted:
        import weald

        typer.echo(f"weald {weald.__version__}")
        raise typer.Exit


def options(
    context: typer.Context,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of errors.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and stop.")
    ] = False,
) -> None:
    """Discover hidden structure, know how sure you are, decide what to measure next."""
    context.obj = debug


def demo(
    context: typer.Context,
    out: Annotated[Path, typer.Option(help="Folder to write.")] = Path("weald-demo"),
    no_progress: Quiet = False,
) -> None:
    """Cluster a real table that comes with weald, and write its report."""
    with _one_line_errors(context.obj), _progress(no_progress) as bar:
        from weald.app.demo import demo as run_demo

        run = run_demo(out, callbacks=bar)
    _tell(run)
    typer.echo(f"  repeat   {run.command}")
    typer.echo("           without --k the number of clusters is found, with its uncertainty")


def cluster(
    context: typer.Context,
    data: Annotated[str, typer.Argument(help="CSV, TSV, Parquet, NPY or NPZ file; - is standard input.")],
    k: Annotated[
        int | None, typer.Option("--k", "-k", help="Number of clusters; without it the number is found too.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder to write.")] = Path("weald-run"),
    family: Annotated[
        str, typer.Option(help="auto, gaussian, bernoulli, categorical, multinomial, poisson, mixed.")
    ] = "auto",
    covariance: Annotated[str, typer.Option(help="full, diag, spherical; with --k also tied.")] = "full",
    inference: Annotated[
        str,
        typer.Option(help="auto; with --k em, sem, gibbs, vb; without collapsed, tree-guided, parallel, vb."),
    ] = "auto",
    columns: Annotated[str, typer.Option(help="Columns to use, by comma; all by default.")] = "",
    exclude: Annotated[str, typer.Option(help="Columns to leave out, by comma.")] = "",
    id: Annotated[str | None, typer.Option(help="Column that names rows.")] = None,
    label: Annotated[str | None, typer.Option(help="Column of known classes, only to compare with.")] = None,
    scale: Annotated[str, typer.Option(help="none, standard, robust.")] = "none",
    seed: Annotated[int, typer.Option(help="Seed.")] = 0,
    n_init: Annotated[int | None, typer.Option(help="Starts, with --k; the best is kept (5 by default).")] = None,
    max_iter: Annotated[int | None, typer.Option(help="Most sweeps of each start or chain.")] = None,
    prior: Annotated[str | None, typer.Option(help="Without --k: dp (default), pitman-yor, nggp, nig, mfm.")] = None,
    labels_format: Annotated[str, typer.Option(help="parquet, csv, tsv, npz.")] = "parquet",
    resume: Annotated[bool, typer.Option("--resume", help="Go on where an interrupted run in OUT stopped.")] = False,
    no_progress: Quiet = False,
) -> None:
    """Cluster a table: labels, probabilities, model and report in one folder."""
    with _one_line_errors(context.obj), _progress(no_progress) as bar:
        from weald.app.cluster import cluster as run_cluster
        from weald.app.prepare import Settings

        settings = Settings(
            k, family, covariance, inference, _names(columns), _names(exclude), id, label, scale, seed, n_init,
            max_iter, prior,
        )  # fmt: skip
        run = run_cluster(data, out, settings, labels_format=labels_format, callbacks=bar, resume=resume)
    _tell(run)


def topics(
    context: typer.Context,
    data: Annotated[
        str, typer.Argument(help="Folder of .txt files, JSONL, CSV, TSV or Parquet file; - is standard input.")
    ],
    text: Annotated[str, typer.Option(help="Column with the text.")] = "text",
    k: Annotated[
        int | None, typer.Option("--k", "-k", help="Number of topics; without it the number is found too.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder to write.")] = Path("weald-run"),
    id: Annotated[str | None, typer.Option(help="Column that names documents.")] = None,
    date: Annotated[str | None, typer.Option(help="Column of dates or years: topics over time.")] = None,
    inference: Annotated[
        str, typer.Option(help="auto; with --k gibbs, online-vb, vb, em; without gibbs, svi.")
    ] = "auto",
    words: Annotated[int, typer.Option(help="Words shown of each topic.")] = 10,
    stop_words: Annotated[str, typer.Option(help="english, none, or a file with a word on each line.")] = "english",
    min_df: Annotated[
        float | None, typer.Option(help="Leave out words in fewer documents: a number, or a share below 1.")
    ] = None,
    max_df: Annotated[
        float | None, typer.Option(help="Leave out words in more documents: a share up to 1, or a number.")
    ] = None,
    max_features: Annotated[int, typer.Option(help="Most words kept, the most frequent first.")] = 50_000,
    seed: Annotated[int, typer.Option(help="Seed.")] = 0,
    max_iter: Annotated[int | None, typer.Option(help="Most sweeps or passes; of gibbs half are warmup.")] = None,
    tables: Annotated[str, typer.Option(help="Format of the tables: parquet, csv, tsv.")] = "parquet",
    resume: Annotated[bool, typer.Option("--resume", help="Go on where an interrupted run in OUT stopped.")] = False,
    no_progress: Quiet = False,
) -> None:
    """Find the topics of texts: words, documents, model and report in one folder."""
    with _one_line_errors(context.obj), _progress(no_progress) as bar:
        from weald.app.topics import TopicSettings
        from weald.app.topics import topics as run_topics

        settings = TopicSettings(
            k, text, id, date, inference, words, stop_words, min_df, max_df, max_features, seed, max_iter
        )
        run = run_topics(data, out, settings, tables=tables, callbacks=bar, resume=resume)
    _tell_topics(run)


def predict(
    context: typer.Context,
    run: Annotated[Path, typer.Argument(help="Folder that weald cluster or weald topics wrote.")],
    data: Annotated[str, typer.Argument(help="Table with the same columns, or texts; - is standard input.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="File to write: .parquet, .csv, .tsv or .npz.")],
) -> None:
    """Label new rows, or tell the topics of new documents, with the model of a run."""
    with _one_line_errors(context.obj):
        from weald.app.predict import predict as run_predict

        columns = run_predict(run, data, out)
    what = "rows labelled" if "cluster" in columns else "documents"
    typer.echo(f"{len(columns['row']):,} {what} in {out}")


@contextmanager
def _one_line_errors(debug: bool) -> Iterator[None]:
    """What goes wrong as one line and an exit status; with `debug` the traceback too."""
    try:
        yield
    except KeyboardInterrupt:
        typer.echo("weald: interrupted; the same command with --resume goes on from the last checkpoint", err=True)
        raise typer.Exit(130) from None
    except Exception as error:
        if debug:
            typer.echo(traceback.format_exc(), err=True)
        expected = isinstance(error, WealdError | OSError | MemoryError)
        text = " ".join((str(error) or type(error).__name__).split())
        hint = "" if expected else f" (unexpected {type(error).__name__}; weald --debug shows where)"
        typer.echo(f"weald: {text}{hint}", err=True)
        raise typer.Exit(2 if expected else 1) from None


@contextmanager
def _progress(quiet: bool) -> Iterator[list[Any]]:
    """Callbacks that move a bar on the terminal; none where there is no terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield []
        return
    with Progress(
        TextColumn("fitting"), BarColumn(), TextColumn("{task.completed:.0f}/{task.total:.0f} sweeps"),
        TimeElapsedColumn(), TextColumn("{task.fields[figure]}"), console=console, transient=True,
    ) as bar:  # fmt: skip
        task = bar.add_task("fit", total=1, figure="")
        done: dict[int, int] = {}

        def move(event: Event) -> None:
            done[event.chain] = event.total if event.phase == "end" else event.sweep
            value, n_clusters = event.stats.get("log_likelihood"), event.stats.get("n_clusters")
            figure = "" if value is None else f"log likelihood {value:,.1f}"
            figure = figure if n_clusters is None else f"{n_clusters:.0f} clusters"
            figure = figure if "n_topics" not in event.stats else f"{event.stats['n_topics']:.0f} topics"
            bar.update(task, total=event.total * event.n_chains, completed=sum(done.values()), figure=figure)

        yield [move]


def _tell(run: Run) -> None:
    """What was found and where it is."""
    for note in run.notes:
        typer.echo(f"note: {note}", err=True)
    if not run.status.ok:
        typer.echo(str(run.status), err=True)
    sure = 100 * float((run.certainty >= 0.9).mean())
    typer.echo(f"{run.found} in {len(run.labels):,} rows; {sure:.0f} % of rows assigned with at least 90 % probability")
    typer.echo(f"  report   {run.out / 'report.html'}")
    typer.echo(f"  labels   {next(run.out.glob('labels.*'))}")
    typer.echo(f"  model    {run.out / 'model.weald'}")


def _tell_topics(run: TopicRun) -> None:
    """The topics in a few words each, and where the rest is."""
    for note in run.notes:
        typer.echo(f"note: {note}", err=True)
    if not run.status.ok:
        typer.echo(str(run.status), err=True)
    fit = run.fitness
    known = (
        "" if fit.perplexity is None else f"; held-out perplexity {fit.perplexity:,.0f} (unigram {fit.unigram:,.0f})"
    )
    typer.echo(f"{run.found} in {run.counted.n_documents:,} documents{known}")
    listed = run.model.topics_(min(run.settings.words, 8), run.counted.vocabulary.words)
    for k, (words, share) in enumerate(zip(listed, run.model.topic_sizes_, strict=True)):
        typer.echo(f"  {k:>4} {100 * share:5.1f} %  {' '.join(words)}")
    typer.echo(f"  report   {run.out / 'report.html'}")
    typer.echo(f"  tables   {', '.join(sorted(path.name for path in run.out.glob('*.[pct][as][rv]*')))}")
    typer.echo(f"  model    {run.out / 'model.weald'}")


def _names(text: str) -> tuple[str, ...]:
    """Column names split at commas; names that hold commas stand in double quotes."""
    return tuple(name.strip() for line in csv.reader([text]) for name in line if name.strip())


app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None)
app.callback()(options)
for command in (demo, cluster, topics, predict):
    app.command()(command)
