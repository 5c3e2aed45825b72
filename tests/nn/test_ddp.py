"""The layer under plain DistributedDataParallel, without find_unused_parameters."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from armagnn.nn import ARMAConv
from nn.ddp_worker import Net, train
from nn.oracle import random_graph


@pytest.mark.skipif(not dist.is_gloo_available(), reason="this build of torch has no gloo")
def test_plain_ddp(tmp_path: object) -> None:
    mp.spawn(train, args=(2, str(tmp_path)), nprocs=2)
    one, two = (torch.load(f"{tmp_path}/{rank}.pt", weights_only=True) for rank in range(2))
    torch.testing.assert_close(one, two, rtol=0, atol=0)

    # and the same as one process that sees both halves
    torch.manual_seed(0)
    net = Net(torch.nn.ModuleList([ARMAConv(4, 8, 2, 1), ARMAConv(8, 3, 2, 3, init="tied")]))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    index = random_graph(9, 18)
    for step in range(3):
        xs = [torch.randn(9, 4, generator=torch.Generator().manual_seed(10 * step + rank)) for rank in range(2)]
        optimizer.zero_grad()
        (sum(net(x, index).square().mean() for x in xs) / 2).backward()
        optimizer.step()
    torch.testing.assert_close(one, torch.cat([p.detach().reshape(-1) for p in net.parameters()]), rtol=1e-5, atol=1e-6)
