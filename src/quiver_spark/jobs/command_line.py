"""The command line of a job without `quiver pipeline` before it, for spark-submit."""


def run_command(job: str, argv: list[str]) -> int:
    """Exit status 0: done; 1: refused or failed, with one message; 2: wrong usage."""
    from quiver.cli.main import run

    try:
        return run(["pipeline", job, *argv])
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
