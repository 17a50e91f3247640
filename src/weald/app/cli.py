"""The `weald` command: finds the commands, or says what to install.

    $ weald demo
    $ weald cluster data.parquet --out run/
    $ weald predict run/ new.csv -o labels.parquet

The commands themselves are in `weald.app.commands`, which needs typer; errors are one line on standard error with
exit status 2, unexpected ones status 1, an interrupt 130.
"""

from __future__ import annotations

import sys

from weald.exceptions import need


def main() -> None:
    """Entry point of the console script."""
    try:
        import rich  # noqa: F401
        import typer  # noqa: F401
    except ImportError as error:
        missing = need(error.name or "typer", "app", "the command line")
        sys.stderr.write(f"weald: {missing}\n")
        raise SystemExit(2) from None
    from weald.app.commands import app

    app(prog_name="weald")


if __name__ == "__main__":
    main()
