"""The command line. Everything heavy is imported late, so that `quiver --help` is quick."""
