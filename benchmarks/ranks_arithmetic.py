"""What a graph over ranks costs each of them: memory, bytes and seconds, by a model of a few lines.

    python benchmarks/ranks_arithmetic.py

Memory of the operator and bytes of an exchange are counted exactly; `tests/distributed/test_ranks_arithmetic.py` holds
them against a `PartitionedOperator`. Seconds are a model with three rates, which
docs/guides/ranks-arithmetic.md checks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

REAL: Final = 4
"""Bytes of a number, float32."""

ALL_ELSE: Final = 2.0
"""By how much a measured step is longer than its products alone: activations, skip connections, sums (1.8 to 2.2)."""


@dataclass(frozen=True)
class Share:
    """The part of a rank.

    Attributes:
        nodes: rows that it owns.
        entries: nonzeros of these rows.
        halo: rows of other ranks that it needs.
        sent: rows of its own that other ranks need, one for each rank that needs it.
    """

    nodes: int
    entries: int
    halo: int
    sent: int

    @property
    def id_bytes(self) -> int:
        """Bytes of a number of a node or of an entry within the rank."""
        return 4 if max(self.entries, self.nodes + self.halo) < 2**31 else 8

    @property
    def operator_bytes(self) -> int:
        """The rows as they came, again as those over own nodes and those over the halo, and the lists of exchanges.

        All rows are taken to reach the halo, if there is one.
        """
        reach = self.nodes if self.halo else 0
        rows, lists = (2 * (self.nodes + 1) + reach + 1) * self.id_bytes, 8 * (self.halo + self.sent)
        return rows + 2 * self.entries * (self.id_bytes + REAL) + lists

    def bytes_sent(self, width: int) -> int:
        """Of one product with ``width`` columns; as many go back in its gradient."""
        return self.sent * width * REAL


@dataclass(frozen=True)
class Network:
    """ARMA layers of equal width: F units, K stacks, T steps, as many layers as that."""

    layers: int = 2
    width: int = 64
    stacks: int = 2
    steps: int = 2

    def state_bytes(self, share: Share, checkpoint: bool = False) -> int:
        """What is kept for the way back: X, its product and T states of a layer; or X, and the states of one layer."""
        x = share.nodes * self.width * REAL
        kept = x + self.steps * self.stacks * x
        return self.layers * x + (kept if checkpoint else self.layers * kept)

    def peak_bytes(self, share: Share, checkpoint: bool = False) -> int:
        """Operator, states, four matrices at work, and the halo's rows there and back."""
        wide = self.stacks * self.width * REAL
        return share.operator_bytes + self.state_bytes(share, checkpoint) + (4 * share.nodes + 2 * share.halo) * wide

    @property
    def columns(self) -> int:
        """Columns of all products of a step of training, there and back: the first of a layer is with X."""
        return self.layers * (2 * self.width + 2 * (self.steps - 1) * self.stacks * self.width)

    def flops(self, share: Share) -> int:
        """Of the dense products of a step of training: X V, X W0 and the W of later steps; twice as many back."""
        return self.layers * 3 * 2 * share.nodes * self.stacks * self.width**2 * (self.steps + 1)


@dataclass(frozen=True)
class Machine:
    """Bytes of gathered rows a second, bytes sent a second, and multiplications and additions a second."""

    gather: float
    network: float
    dense: float

    def seconds(self, share: Share, network: Network) -> tuple[float, float, float]:
        """Of a step of training: products, what is sent, and dense products; one after the other."""
        columns = network.columns
        products = share.entries * columns * REAL / self.gather
        return products, share.bytes_sent(columns) / self.network, network.flops(share) / self.dense


SERVER: Final = Machine(gather=100e9, network=2.5e9, dense=1e12)
"""Of 32 cores and a network of 25 Gbit/s at four fifths: assumed, not measured."""

HALO: Final = {
    "geometric, ordered": {8: 0.035, 16: 0.06, 32: 0.095, 64: 0.15},
    "R-MAT, METIS": {8: 1.4, 16: 2.4, 32: 3.9, 64: 6.3},
}
"""Rows of the halo for each own row, as measured on graphs of 100,000 nodes at P = 16 and 64 (and 4); 8 and 32 are the
geometric means of their neighbours."""


def share_of(nodes: float, entries: float, ranks: int, halo: float) -> Share:
    """The part of one of ``ranks`` equal ranks; what all need is what all send."""
    own = int(nodes / ranks)
    return Share(own, int(entries / ranks), int(halo * own), int(halo * own))


def table() -> str:
    """The rows for 10^8 nodes, as Markdown."""
    network = Network()
    lines = [
        "| graph | edges | machines | operator, GiB | peak, GiB | peak, checkpoint=True | GB sent a step "
        "| seconds a step |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for kind, halos in HALO.items():
        for edges in (1e9, 1e10):
            for ranks, halo in halos.items():
                share = share_of(1e8, 2 * edges, ranks, halo)
                products, sending, dense = SERVER.seconds(share, network)
                seconds = ALL_ELSE * (products + dense) + sending
                gib = [share.operator_bytes, network.peak_bytes(share), network.peak_bytes(share, checkpoint=True)]
                lines.append(
                    f"| {kind} | 10^{len(str(int(edges))) - 1} | {ranks} | "
                    + " | ".join(f"{n / 2**30:.1f}" for n in gib)
                    + f" | {share.bytes_sent(network.columns) / 1e9:.1f} | "
                    + f"2 × ({products:.1f} + {dense:.1f}) + {sending:.1f} = {seconds:.1f} |"
                )
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
