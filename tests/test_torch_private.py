"""Private parts of torch are used in one file, and do in the installed torch what that file says."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import forward_ad
from torch.func import functional_call, grad, jvp, vmap

from armagnn import torch_private as private

SOURCE = Path(private.__file__).parent
PRIVATE = re.compile(r"\btorch(?:\.\w+)*\._(?!_version__)|\bfrom torch[\w.]* import _|_functorch|forward_ad\._|_pytree")


def asked(question, run, x=None):
    """What `question` answers about the tensor that `run` gives to a function."""
    answers = []

    def function(value):
        answers.append(question(value))
        return (value * value).sum()

    run(function)(torch.ones(3) if x is None else x)
    return answers[0]


def alone(function):
    return function


def tangent(function):
    return lambda x: jvp(function, (x,), (x,))


@pytest.mark.parametrize(
    "text", ["torch._C.x", "torch.utils._pytree", "from torch.utils import _pytree", "torch.autograd.forward_ad._x"]
)
def test_what_is_private_is_found(text):
    assert PRIVATE.search(text)
    assert not PRIVATE.search("torch.__version__, torch.func.vmap, my_torch._C")


def test_only_one_file_uses_what_is_private():
    found = [
        f"{path.relative_to(SOURCE.parent)}: {line}"
        for path in sorted(SOURCE.parent.rglob("*.py"))
        if path != Path(private.__file__)
        for line in path.read_text().splitlines()
        if PRIVATE.search(line)
    ]
    assert not found


@pytest.mark.parametrize(
    ("question", "yes", "no"),
    [
        (lambda x: private.transforms_active(), (vmap, grad, tangent), (alone,)),
        (private.is_wrapped, (vmap, grad, tangent), (alone,)),
        (private.is_batched, (vmap,), (alone, grad, tangent)),
        (lambda x: private.batching() is not None, (vmap, lambda f: grad(lambda x: vmap(f)(x).sum())), (alone, grad)),
        (lambda x: private.only_vmap(), (vmap,), (alone, grad, lambda f: grad(lambda x: vmap(f)(x).sum()))),
        (lambda x: private.forward_mode(), (tangent,), (alone, vmap, grad)),
        (private.learned, (grad, tangent, lambda f: tangent(vmap(f))), (alone, vmap)),
        (private.needs_gradient, (lambda f: lambda x: vmap(f)(x.requires_grad_()), tangent), (alone, vmap)),
    ],
    ids=["active", "wrapped", "batched", "batching", "only_vmap", "forward_mode", "learned", "needs_gradient"],
)
def test_transforms_are_seen(question, yes, no):
    for run in yes:
        assert asked(question, run)
    for run in no:
        assert not asked(question, run)


def test_the_tensors_of_an_outer_vmap_belong_to_that_one():
    def inner(x, y):
        interpreter = private.batching()
        answers.append([private.is_batched_by(interpreter, tensor) for tensor in (x, y, 1)])
        return x + y

    answers = []
    vmap(lambda x: vmap(inner, (None, 0))(x, torch.ones(2)))(torch.ones(3))
    assert answers == [[False, True, False]]


def test_a_rule_sees_all_trials():
    def rule(info, dims, x, y):
        seen.append((info.batch_size, dims, x.shape))
        return x.movedim(dims[0], 1) + y, 1

    seen = []
    x = torch.rand(3, 2)
    out = vmap(lambda x: private.apply_rule(private.batching(), rule, (x, 1.0)), 1, 0)(x)
    torch.testing.assert_close(out, x.mT + 1)
    assert seen == [(2, (1, None), x.shape)]


def test_an_operators_rule_for_vmap_is_seen():
    answers = []
    library = torch.library.Library("armagnn_test_private", "DEF")
    library.define("twice(Tensor x) -> Tensor")
    library.impl("twice", lambda x: 2 * x, "CompositeExplicitAutograd")

    def rule(info, dims, x):
        answers.append(private.in_vmap_rule())
        return 2 * x, dims[0]

    torch.library.register_vmap("armagnn_test_private::twice", rule, lib=library)
    vmap(torch.ops.armagnn_test_private.twice)(torch.ones(3))
    answers.append(private.in_vmap_rule())
    assert answers == [True, False]


def test_recording_is_seen():
    def function(x):
        answers.append((private.traced(), private.recording()))
        return x + 1

    answers = []
    function(torch.ones(1))
    torch.jit.trace(function, torch.ones(1), check_trace=False)
    with FakeTensorMode():
        function(torch.ones(1))
    assert answers == [(False, False), (True, True), (False, True)]
    compiled = torch.compile(lambda x: x + private.traced() + 2 * private.recording(), backend="eager", fullgraph=True)
    assert compiled(torch.zeros(1)) == 3


def test_compiled_code_may_ask():
    compiled = torch.compile(
        lambda x: x + private.transforms_active() + 2 * private.forward_mode() + 4 * private.learned(x),
        backend="eager",
        fullgraph=True,
    )
    assert compiled(torch.zeros(1)) == 0


def test_a_graph_that_is_kept_is_seen():
    class Asking(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            answers.append(private.graph_is_kept())
            return g

    answers = []
    out = Asking.apply(torch.ones(1, requires_grad=True))
    out.backward(retain_graph=True)
    out.backward()
    assert answers == [True, False]


def test_forward_mode_can_be_switched_on_again():
    with forward_ad.dual_level():
        x = forward_ad.make_dual(torch.ones(1), torch.full((1,), 3.0))
        with forward_ad._set_fwd_grad_enabled(False):
            assert forward_ad.unpack_dual(x * 1).tangent is None
            with private.forward_mode_enabled():
                assert forward_ad.unpack_dual(x * 1).tangent == 3


def test_a_derivative_forwards_gets_plain_tensors():
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.save_for_forward(x, None)
            return x * x + y

        @staticmethod
        def jvp(ctx, x, y):
            saved, nothing = private.primals(ctx)
            answers.append((forward_ad.unpack_dual(saved).tangent, nothing))
            x, y = private.materialised((x, torch._efficientzerotensor(3) if y is None else y))
            assert not y._is_zerotensor()
            return 2 * saved * x + y

    answers = []
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(torch.full((3,), 2.0), torch.ones(3))
        out = forward_ad.unpack_dual(Square.apply(dual, torch.ones(3))).tangent
    assert out.tolist() == [4.0] * 3
    assert answers == [(None, None)]


def test_a_batch_of_gradients_is_opened_and_closed():
    class Asking(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            answers.append(private.is_gradient_batch(g))
            if not answers[-1]:
                return g
            shapes.append(private.unbatched(g).shape)
            return private.batched(2 * private.unbatched(g).mT.mT)

    answers, shapes = [private.is_gradient_batch(None)], []
    x = torch.rand(3, requires_grad=True)
    (found,) = torch.autograd.grad(Asking.apply(x), x, torch.eye(3), is_grads_batched=True)
    torch.testing.assert_close(found, 2 * torch.eye(3))
    torch.autograd.grad(Asking.apply(x).sum(), x)
    assert answers == [False, True, False]
    assert shapes == [(3, 3)]


def test_all_tensors_are_copied():
    targets = [torch.zeros(2), torch.zeros(1)]
    private.copy_all(targets, [torch.ones(2), torch.full((1,), 5.0)])
    assert [t.tolist() for t in targets] == [[1.0, 1.0], [5.0]]


def test_a_class_becomes_a_tree():
    class Pair:
        def __init__(self, one, two, name):
            self.one, self.two, self.name = one, two, name

    private.register_tree(
        Pair, ("one", "two"), lambda p: ([p.one, p.two], p.name), lambda leaves, name: Pair(*leaves, name)
    )
    new = torch.utils._pytree.tree_map(lambda x: x + 1, [Pair(1, 2, "name")])[0]
    assert (new.one, new.two, new.name) == (2, 3, "name")
    keys, _ = torch.utils._pytree.tree_flatten_with_path([Pair(1, 2, "name")])
    assert [torch.utils._pytree.keystr(path) for path, _ in keys] == ["[0].one", "[0].two"]


def test_slots_give_what_a_functional_call_gives():
    net = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3), torch.nn.Linear(3, 3)).eval()
    net[2].weight = net[0].weight
    x = torch.randn(5, 3)
    state = {name: torch.rand_like(value) for name, value in net.state_dict().items() if value.is_floating_point()}
    del state["2.weight"]  # the second name of a shared one
    before, slots = net(x), private.Slots(net)
    assert torch.equal(slots.call(state, x), functional_call(net, state, (x,)))
    assert torch.equal(slots.call({"0.bias": state["0.bias"]}, x), functional_call(net, {"0.bias": state["0.bias"]}, x))
    assert torch.equal(net(x), before)  # what was there is back

    stacked = {name: torch.stack([value, 2 * value, value + 1]) for name, value in state.items()}
    of_trials = vmap(lambda given: slots.call(given, x))(stacked)
    expected = [slots.call({name: value[i] for name, value in stacked.items()}, x) for i in range(3)]
    torch.testing.assert_close(of_trials, torch.stack(expected))


def test_slots_are_put_back_after_an_error():
    net = torch.nn.Linear(3, 2)
    weight = net.weight
    with pytest.raises(RuntimeError):
        private.Slots(net).call({"weight": torch.ones(7, 7)}, torch.ones(3))
    assert net.weight is weight
    assert isinstance(net.weight, torch.nn.Parameter)


def test_trials_go_as_under_vmap_and_by_no_slow_way() -> None:
    program = """
import torch
from torch.nn.functional import cross_entropy
from armagnn.torch_private import over_trials
x, y = torch.randn(50, 3, 6), torch.randint(0, 6, (50,))
single = lambda params, scale: {"loss": cross_entropy(scale * params["x"], y), "same": y.sum()}
ours = over_trials(single, 3, {"x": 1}, {"x": x}, torch.arange(3.0))
truth = torch.func.vmap(single, in_dims=({"x": 1}, 0))({"x": x}, torch.arange(3.0))
assert ours.keys() == truth.keys() and all(torch.equal(ours[name], truth[name]) for name in truth)
"""
    # torch makes some of its rules for vmap at the first vmap of a process, and warns where it goes on without them
    subprocess.run([sys.executable, "-W", "error::UserWarning", "-c", program], check=True)
