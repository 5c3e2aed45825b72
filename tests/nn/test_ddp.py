"""The layer under plain DistributedDataParallel, without find_unused_parameters.

One rank is enough: a parameter that gets no gradient makes DDP raise in the next step whatever the number of ranks.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from armagnn.nn import ARMAConv
from nn.arma_oracle import random_graph

pytestmark = pytest.mark.skipif(not dist.is_gloo_available(), reason="this build of torch has no gloo")


@pytest.fixture
def group(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")  # no look-up of the machine's name
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


class Net(nn.Module):
    def __init__(self, unused: bool) -> None:
        super().__init__()
        self.layers = nn.ModuleList([ARMAConv(4, 8, 2, 1), ARMAConv(8, 3, 2, 3, init="tied")])
        if unused:
            self.spare = nn.Parameter(torch.zeros(1))

    def forward(self, x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x, index)
        return x


def train(net: nn.Module) -> torch.Tensor:
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    index = random_graph(9, 18)
    for step in range(3):
        x = torch.randn(9, 4, generator=torch.Generator().manual_seed(step))
        optimizer.zero_grad()
        net(x, index).square().mean().backward()
        optimizer.step()
    return torch.cat([p.detach().reshape(-1) for p in net.parameters()])


def test_plain_ddp(group: None) -> None:
    torch.manual_seed(0)
    plain = Net(unused=False)
    wrapped = Net(unused=False)
    wrapped.load_state_dict(plain.state_dict())
    torch.testing.assert_close(train(DistributedDataParallel(wrapped)), train(plain))


def test_ddp_would_notice_a_parameter_without_gradient(group: None) -> None:
    with pytest.raises(RuntimeError, match=r"unused parameters|finished reduction"):
        train(DistributedDataParallel(Net(unused=True)))
