"""`quiver config`: what is in force, and where each value came from."""

from quiver.app.config import LoadedConfig, shown_values
from quiver.cli.formats.output import Output, OutputOption, show_rows
from quiver.cli.lazy_group import command_app
from quiver.cli.options.config import with_config


@with_config
def config(loaded: LoadedConfig, output: OutputOption = Output.TABLE) -> None:
    """Show the configuration in force and where each value came from."""
    values = shown_values(loaded.config)
    rows = [{"setting": name, "value": value, "origin": loaded.origins[name]} for name, value in values.items()]
    show_rows(rows, output)


app = command_app(config)
