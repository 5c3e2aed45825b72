"""The page of results says what the rows say."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from armagnn.data import load
from armagnn.errors import DataError
from armagnn.sealed import write_sealed
from armagnn_paper.page import SECTIONS, results_page, text, with_overview
from armagnn_paper.summaries import Summary, corrected, read_cells
from armagnn_paper.tables import MOLECULAR, NODES, SIGNALS, TABLES, paper_config

OF_NODES, OF_SIGNALS, OF_GRAPHS, OF_MOLECULES = SECTIONS
SCORES = "dataset,method,fold,input_dropout,hidden_dropout,skip_dropout,l2,act,last_k,seed\n"


def write(path: Path, text: str) -> None:
    write_sealed(path, text.encode())


HEAD = "dataset,method,protocol,run,fold,metric,value,seed,epochs,seconds,device,config_hash\n"


def table(tmp_path: Path, *rows: str) -> Path:
    write(tmp_path / "node-classification.csv", HEAD + "".join(f"{row},0,9,1.0,some GPU,abc\n" for row in rows))
    write(
        tmp_path / "search" / "node-classification.csv",
        SCORES + "cora,gcn,0,0.1,0.1,0.0,0.1,elu,1,2000003\nppi,arma,0,0.1,0.1,0.0,0.1,elu,1,1000000\n",
    )
    return tmp_path


def test_cells_and_their_summaries(tmp_path: Path) -> None:
    folder = table(
        tmp_path,
        "cora,arma,paper,0,0,accuracy,80", "cora,arma,paper,1,0,accuracy,84", "cora,arma,paper,0,0,val_accuracy,10",
        "cora,gcn,paper,0,0,accuracy,81", "cora,gcn,paper,1,0,accuracy,82", "ppi,arma,tuned,0,0,accuracy,92",
        "ppi,arma,tuned,0,0,micro_f1,86.8",
    )  # fmt: skip
    cells = read_cells(folder / "node-classification.csv", "accuracy")
    assert str(cells["cora", "arma", "paper"]) == "82.0 ± 2.8 (2)"
    page = results_page(folder)
    assert "| ARMA | 83.4 ± 0.6 | 82.0 ± 2.8 (2) |" in page
    assert "| GCN | 81.5 ± 0.4 | 81.5 ± 0.7 (2) | +0.5 (p = 0.8" in page
    assert "86.8 (1)" in page
    assert "some GPU" in page
    assert "### Citeseer" not in page  # nothing there, nothing shown
    assert "by the first stage alone, were chosen: GCN on Cora.\n" in page  # PPI has no finals to hold
    short = with_overview("a\n<!-- table 1 -->\nold\n<!-- end of table 1 -->\nb", folder)
    assert "| ARMA | 83.4 / 82.0 ± 2.8 (2, literal) | 72.5 / - | 78.9 / - | 90.5 / 92.0 (1, tuned) |" in short
    assert "| Cora | 83.4 ± 0.6 | 82.0 ± 2.8 | literal | 2 | 1.2 | short by 1.4 (1.2 sampling errors) |" in page
    assert short.startswith("a\n")
    assert short.endswith("\nb")
    assert "old" not in short
    with pytest.raises(DataError, match="no place"):
        with_overview("a", folder)


def test_the_committed_pages_are_those_of_the_committed_rows() -> None:
    root = Path(__file__).parents[2]
    if not (root / "results").is_dir():
        pytest.skip("no results beside the tests: not a checkout")
    assert (root / "docs" / "paper" / "results.md").read_text() == results_page(root / "results")
    short = (root / "docs" / "paper" / "index.md").read_text()
    assert short == with_overview(short, root / "results")


def test_finals_are_held_when_all_finalists_have_all_seeds(tmp_path: Path) -> None:
    budget = NODES.search.budgets["cora"]
    rows = [
        f"cora,gcn,0,0.{setting},0.1,0.0,0.1,elu,1,{seed}\n"
        for setting in range(budget.finalists)
        for seed in (1_000_000, *range(2_000_000, 2_000_000 + budget.final_seeds))
    ]
    trials = HEAD + "cora,gcn,tuned,0,0,accuracy,80,0,9,1.0,cpu,abc\n"
    write(tmp_path / "node-classification.csv", trials)
    path = tmp_path / "search" / "node-classification.csv"
    for own, told in ((rows, "none."), (rows[:-1], "GCN on Cora."), (rows[:-1] + rows[:1], "GCN on Cora.")):
        write(path, SCORES + "".join(own))
        assert f"by the first stage alone, were chosen: {told}\n" in results_page(tmp_path)
    write(path, SCORES + rows[0].replace("1000000", "first"))
    with pytest.raises(DataError, match="not the scores of a search"):
        results_page(tmp_path)


def test_the_reservoir_stands_beside_the_trained_layer(tmp_path: Path) -> None:
    folder = table(tmp_path, "cora,arma,tuned,0,0,accuracy,80", "cora,arma,tuned,1,0,accuracy,82")
    assert "reservoir.csv" not in results_page(folder)
    write(
        folder / "reservoir.csv",
        "dataset,method,protocol,run,fold,metric,value,seconds,device\ncora,reservoir,tuned,0,0,accuracy,79,2.0,CPU\n"
        "cora,reservoir,tuned,1,0,accuracy,79,4.0,CPU\nmutag,reservoir,tuned,0,3,accuracy,90,0.25,CPU\n"
        "mutag,reservoir,tuned,0,3,val_accuracy,10,9,CPU\ncora,arma,tuned,0,0,accuracy,80,7.0,CPU\n",
    )
    section = results_page(folder)
    assert "| Cora | 79.0 ± 0.0 (2) | 3.0 | 81.0 ± 1.4 (2) | 7.0 |" in section
    assert "| MUTAG | 90.0 (1) | 0.2 |  |  |" in section
    trained = "mutag,arma,paper,{},0,accuracy,{},0,9,{},{},abc\n"
    rows = [trained.format(*row) for row in ((0, 80, 5.0, "cpu"), (1, 90, 0.5, "some GPU"))]
    write(folder / "graph-classification.csv", HEAD + "".join(rows))
    section = results_page(folder)
    assert "| MUTAG | 90.0 (1) | 0.2 | 85.0 ± 7.1 (2) | 5.0 |" in section


def test_a_file_that_is_no_table(tmp_path: Path) -> None:
    write(tmp_path / "node-classification.csv", "a,b\n1,2\n")
    with pytest.raises(DataError, match="results export"):
        results_page(tmp_path)


def test_graph_tables(tmp_path: Path) -> None:
    folder = table(tmp_path, "cora,arma,paper,0,0,accuracy,80")
    rows = []
    for fold, value in enumerate((80, 90)):
        for metric, shift in (("accuracy", 0), ("accuracy_loss", 1), ("accuracy_last", 2), ("accuracy_first", 3)):
            rows.append(f"mutag,arma,paper,0,{fold},{metric},{value + shift}")
    rows += [f"mutag,gcn,paper,0,{fold},accuracy,{value}" for fold, value in ((0, 77), (1, 86))]
    write(folder / "graph-classification.csv", HEAD + "".join(f"{row},0,9,1.0,cpu,abc\n" for row in rows))
    row = "qm9/mu,gcn,paper,0,0,mse,0.4444,0,9,1.0,cpu,abc\n"
    write(folder / "graph-regression.csv", HEAD + row)
    page = results_page(folder)
    assert "| ARMA | 91.5 ± 4.2 | 85.0 ± 7.1 (2) |" in page
    assert f"81.5 ± 6.4 (2) | +3.5 (p = {corrected([3, 4]):.3f})" in page
    assert "corrected resampled t-test" in page
    assert "| ARMA | paper | 85.0 ± 7.1 (2) | 86.0 ± 7.1 (2) | 87.0 ± 7.1 (2) | 88.0 ± 7.1 (2) |" in page
    head = "| paper / ours, text read literally (runs) |"
    assert f"{head} Enzymes | Proteins | D&D | MUTAG | Bench-hard |" in page
    assert f"{head} mu | alpha |" in page
    assert "| GCN | 0.445 / 0.444 (1) | 0.141 / - |" in page


def test_what_falls_short_is_named() -> None:
    folds = tuple(str(fold) for fold in range(10))
    low, high, few = (
        Summary((value,) * count, frozenset(), folds[:count]) for value, count in ((1, 10), (99, 10), (1, 9))
    )
    cells = {("mutag", "gat", "paper"): few, ("mutag", "gcn", "paper"): low, ("mutag", "mlp", "paper"): low}
    head = "Short of the paper by more than its deviation: "
    assert OF_GRAPHS._behind("mutag", cells) == f"{head}GCN (text read literally)."
    cells |= {("mutag", "arma", "paper"): low, ("mutag", "arma", "tuned"): low, ("mutag", "gcn", "tuned"): high}
    assert OF_GRAPHS._behind("mutag", cells) == f"{head}ARMA, GCN (text read literally); ARMA (tuned)."
    cells[("mutag", "arma", "tuned")] = high
    assert OF_GRAPHS._behind("mutag", cells) == f"{head}ARMA, GCN (text read literally); none (tuned)."
    assert OF_GRAPHS._behind("enzymes", cells) == ""


def test_other_numbers_of_seeds_and_missing_folds_are_told() -> None:
    def cell(runs: int, folds: int) -> Summary:
        return Summary((90.0,) * runs * folds, frozenset(), tuple(str(fold) for fold in range(folds)) * runs)

    cells = {("mutag", "arma", "paper"): cell(10, 10), ("mutag", "gat", "paper"): cell(1, 10)}
    assert OF_GRAPHS._other_runs("mutag", cells) == "."
    cells |= {("mutag", "arma", "tuned"): cell(3, 10), ("mutag", "gin", "tuned"): cell(2, 4)}
    assert OF_GRAPHS._other_runs("mutag", cells) == (
        ", with `--runs 3` for ARMA, tuned; `--runs 2` for GIN, tuned. Not all folds yet: GIN, tuned (4 of 10)."
    )
    cells = {("enzymes", method, "paper"): cell(2, 10) for method in ("arma", "gcn")}
    assert OF_GRAPHS._other_runs("enzymes", cells) == ", with `--runs 2`.", "all alike: nobody is named"


def test_the_page_has_the_sections_whose_tables_are_there(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no table of results"):
        results_page(tmp_path)
    write(tmp_path / "graph-regression.csv", f"{HEAD}qm9/mu,arma,paper,0,0,mse,0.4,0,9,1.0,cpu,abc\n")
    page = results_page(tmp_path)
    assert "## Table 4" in page
    assert "## Table 1" not in page


def test_a_property_falls_short_upwards() -> None:
    low, high = (Summary((value,) * 3, frozenset(), ("0",) * 3) for value in (0.1, 0.9))
    cells = {("qm9/mu", "arma", "paper"): high, ("qm9/mu", "gcn", "paper"): low, ("qm9/mu", "mlp", "paper"): high}
    told = "Short of the paper by more than its deviation: ARMA (text read literally)"
    assert OF_MOLECULES._behind("qm9/mu", cells) == f"{told}."
    good = cells | {("qm9/mu", "arma", "tuned"): low}
    assert OF_MOLECULES._behind("qm9/mu", good) == f"{told}; none of ARMA (tuned)."
    assert OF_MOLECULES._behind("qm9/mu", cells | {("qm9/mu", "arma", "tuned"): high}) == f"{told}; ARMA (tuned)."


def test_the_properties_of_qm9_share_their_tables(tmp_path: Path) -> None:
    path = tmp_path / "graph-regression.csv"
    row = "qm9/{},{},paper,{},0,mse,{},0,9,1.0,cpu,abc\n"
    values = {("mu", "arma"): 0.9, ("mu", "gcn"): 0.5, ("cv", "arma"): 0.1}
    rows = [row.format(*cell, run, value + run / 100) for cell, value in values.items() for run in range(3)]
    write(path, HEAD + "".join(rows))
    section = OF_MOLECULES.show(path)
    assert "###" not in section
    assert "| ARMA's lead, text read literally | mu | cv |" in section
    assert "| GCN | +0.400 (p < 0.001) |  |" in section
    assert "ARMA's lead, tuned" not in section
    command = "armagnn reproduce graph-regression --dataset qm9/... --method METHOD --protocol PROTOCOL"
    assert f"Made on cpu by `{command}`.\n" in section
    told = "Short of the paper by more than its deviation: mu: ARMA, GCN (text read literally)."
    assert told in section


def test_properties_of_qm9_with_other_numbers_of_runs_are_named(tmp_path: Path) -> None:
    path = tmp_path / "graph-regression.csv"
    row = "qm9/{},arma,paper,{},0,mse,0.1,0,9,1.0,{},abc\n"
    made = {"mu": (3, "cpu"), "cv": (5, "NVIDIA H200")}
    rows = [row.format(name, run, device) for name, (runs, device) in made.items() for run in range(runs)]
    write(path, HEAD + "".join(rows))
    section = OF_MOLECULES.show(path)
    assert "Made on NVIDIA H200, cpu by" in section
    assert "`: qm9/mu. qm9/cv, with `--runs 5`." in section


def test_the_bounds_of_qm9(tmp_path: Path) -> None:
    folder = table(tmp_path, "cora,arma,paper,0,0,accuracy,80")
    trials = [f"qm9/mu,arma,{way},0,0,mse,{value},0,9,1.0,cpu,abc\n" for way, value in (("paper", 0.4), ("tuned", 0.3))]
    write(folder / "graph-regression.csv", HEAD + trials[0])
    assert "ours, tuned (runs)" not in results_page(folder)
    write(folder / "graph-regression.csv", HEAD + "".join(trials))
    assert "Least" not in results_page(folder)
    head = 'dataset,seen,classes,"with a twin, %",of,best\n'
    names = [name.removeprefix("qm9/") for name in MOLECULAR.datasets]
    rows = "".join(f"qm9,{best},9,66.7,mse of {name},{best}\n" for best in (0.1, 0) for name in names)
    write(folder / "qm9-bound.csv", head + rows)
    page = results_page(folder)
    assert "so 67 % of the molecules" in page
    assert "| qm9/mu | 0.394 ± 0.005 | 0.400 (1) | 0.300 (1) | 0.100 | 0.000 |" in page
    assert "| paper / ours, tuned (runs) | mu |" in page
    assert "The paper's qm9/alpha, qm9/u0_atom lies below it, and needs other inputs." in page
    write(folder / "qm9-bound.csv", head)
    with pytest.raises(DataError, match="not two bounds of each property"):
        results_page(folder)
    write(folder / "qm9-bound.csv", head + rows.replace("mse of mu", "mse of nu"))
    with pytest.raises(DataError, match=r"qm9-bound.csv: not the bounds of QM9 \('qm9/nu'\).*armagnn data bound qm9"):
        results_page(folder)


def test_the_convergent_layer(tmp_path: Path) -> None:
    folder = table(tmp_path, "cora,arma,paper,0,0,accuracy,80")
    values = {"accuracy": 80, "steps": 30, "contraction": 0.9}
    rows = [
        f"cora,convergent,c=0.9,{run},{run},{name},{value + run}" for run in (0, 1) for name, value in values.items()
    ]
    head = "dataset,method,protocol,run,seed,metric,value\n"
    write(folder / "convergence.csv", head + "\n".join(rows) + "\n")
    page = results_page(folder)
    assert "| cora | convergent, c=0.9 | 80.5 ± 0.7 (2) | 1.400 ± 0.707 (2) | 30 ± 1 (2) |  |  |" in page


@pytest.mark.parametrize("name", [name for name in TABLES if "paper" in TABLES[name].protocols])
def test_the_text_of_every_table_takes_its_numbers_from_the_budgets(name: str) -> None:
    table = TABLES[name]
    said = text(name, b=table.search.budgets)
    assert said.startswith("## Table ")
    assert "{" not in said
    assert [section.table for section in SECTIONS] == [t for t in TABLES.values() if "paper" in t.protocols]


def test_the_signals_stand_beside_the_published_numbers_in_all_readings(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no table of results"):
        results_page(tmp_path)
    means = {"paper": 90.0, "defferrard": 70.0, "all": 60.0, "tuned": 50.0}
    lines = []
    for data in SIGNALS.datasets:
        for name in SIGNALS.methods:
            for way in SIGNALS.own_protocols(data, name):
                for run in range(2):
                    metrics = {"accuracy": means[way] + run, "accuracy_last": means[way] - 10}
                    lines += [
                        f"{data},{name},{way},{run},0,{metric},{value},{run},9,1.0,cpu,abc\n"
                        for metric, value in metrics.items()
                    ]
    write(tmp_path / "graph-signal.csv", HEAD + "".join(lines))
    section = OF_SIGNALS.show(tmp_path / "graph-signal.csv")
    for published in SIGNALS.published.values():
        for mean, deviation in published.values():
            assert f"{mean:.2f} ± {deviation:.2f}" in section
    head = "| paper | ours, text read literally | ARMA's lead | ours, Defferrard's reading | ARMA's lead | ours, "
    assert section.count(f"{head}tuned |") == section.count(f"{head}all documents, last epoch | ARMA's lead |") == 1
    assert section.count("90.50 ± 0.71 (2)") == section.count("50.50 ± 0.71 (2)") == 8
    assert section.count("70.50 ± 0.71 (2)") == 5
    assert "| GCN | 98.48 ± 0.20 | 90.50 ± 0.71 (2) | +0.00 (p = 1.000) |  |  | 50.50 ± 0.71 (2) |" in section
    assert "| ARMA | defferrard | 60.00 ± 0.00 (2) |" in section
    assert "--method METHOD --protocol PROTOCOL" in section


def test_the_figures_of_gin_on_ppi_that_the_text_gives(real: Callable[[str], str]) -> None:
    ppi = load(real("ppi"))
    train, test = ppi.part("train"), ppi.part("test")
    assert int(torch.bincount(train.edge_index[0]).max()) == 721
    known = train.y >= 0
    common = (train.y * known).sum(0) > known.sum(0) / 2  # the labels that most nodes have
    known = test.y >= 0
    same = (common.to(test.y.dtype) == test.y) & known
    assert round(100 * float(same.sum() / known.sum()), 2) == 74.35
    assert round(100 * float(((test.y == 0) & known).sum() / known.sum()), 1) == 70.1  # no label at all
    config = paper_config("ppi", "gin")
    trials = config.experiment(ppi).trials([config.setting(0)])
    loss = float(trials._metrics(trials.params, "val")["loss"])
    assert 16_500 < loss < 17_500


def test_a_leak_is_shown_as_no_result(tmp_path: Path) -> None:
    rows = []
    for fold in range(10):
        for way in ("paper", "leak"):
            rows.append(f"mutag,arma,{way},0,{fold},accuracy,{80 + fold},0,9,1.0,cpu,abc\n")
        rows.append(f"mutag,arma,leak,0,{fold},accuracy_leak,{90 + fold},0,9,1.0,cpu,abc\n")
        rows.append(f"mutag,arma,paper,0,{fold},accuracy_loss,{70 + fold},0,9,1.0,cpu,abc\n")
    write(tmp_path / "graph-classification.csv", HEAD + "".join(rows))
    section = OF_GRAPHS.show(tmp_path / "graph-classification.csv")
    assert (
        "the same trainings give the last column. The paper does not say that this was done. Not a result." in section
    )
    assert "| ARMA | once more | 84.5 ± 3.0 (10) | 94.5 ± 3.0 (10) |" in section
    assert "94.5" in section.split("Not a result.")[1], "and nowhere else"
    assert "94.5" not in section.split("Not a result.")[0]
    assert "ours, once more" not in section
    short = section.split("### MUTAG")[0]
    assert "/ 74.5 ± 3.0 (10)" in short, "the second column: best validation loss restored"
    assert "94.5" not in results_page(tmp_path).split("## Table 3")[0]


def test_20news_without_a_graph_stands_with_its_table(tmp_path: Path) -> None:
    write(tmp_path / "graph-signal.csv", HEAD + "20news,arma,all,0,0,accuracy,69.5,0,20,1.0,cpu,abc\n")
    assert "Without a graph" not in results_page(tmp_path)
    write(tmp_path / "news-baselines.csv", "dataset,method,accuracy,documents\n20news,naive Bayes,70.456,7071\n")
    page = results_page(tmp_path)
    assert "| naive Bayes | 70.46 |" in page
    assert (
        "| 20news | 70.02 ± 0.10 | 69.50 ± 0.00 | all documents | 1 | 0.55 | short by 0.52 (0.9 sampling errors) |"
        in page
    )
