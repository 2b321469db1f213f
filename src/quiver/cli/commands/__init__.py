"""The subcommands of `quiver`: one module per command or group of commands."""
