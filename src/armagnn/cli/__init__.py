"""The command line: ``armagnn train | predict | show | reproduce | figure | results | data | bench``."""

from armagnn.cli.app import app
from armagnn.cli.bench import bench
from armagnn.cli.data import app as data
from armagnn.cli.figure import app as figure
from armagnn.cli.predict import predict
from armagnn.cli.reproduce import app as reproduce
from armagnn.cli.reproduce_graphs import graph_classification  # noqa: F401 (it adds itself to reproduce)
from armagnn.cli.reproduce_signals import graph_signal  # noqa: F401 (likewise)
from armagnn.cli.results import results
from armagnn.cli.show import show
from armagnn.cli.train import app as train
from armagnn.cli.train_graphs import train_graphs  # noqa: F401 (it adds itself to train)

app.command()(predict)
app.command()(show)
app.command()(bench)
app.add_typer(train, name="train")
app.add_typer(data, name="data")
app.add_typer(results, name="results")
app.add_typer(reproduce, name="reproduce")
app.add_typer(figure, name="figure")


def main() -> None:
    """Run the command line (the console script ``armagnn``)."""
    app(prog_name="armagnn")


__all__ = ["app", "main"]
