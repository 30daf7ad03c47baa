"""Which tensors and which circumstances the compiled gating takes, and that it is compiled where it could be."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.autograd import forward_ad

from highwaynet.base.errors import InputError
from highwaynet.kernels.gating import can_gate, gate
from highwaynet.kernels.native import active_kernel, native_module

needs_native = pytest.mark.skipif(native_module() is None, reason="the kernels were not compiled, or HIGHWAYNET_KERNEL=torch")


def mixed(x: Tensor, z: Tensor) -> Tensor:
    """What a layer does: the kernel where it can be used, the formula elsewhere."""
    if can_gate(x, z):
        return gate(x, z, "relu")
    h, t = z.chunk(2, dim=1)
    return torch.lerp(x, torch.relu(h), torch.sigmoid(t))


class Mixing(nn.Module):
    def forward(self, x: Tensor, z: Tensor) -> Tensor:
        return mixed(x, z)


def python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    inherited = {name: value for name, value in os.environ.items() if name != "HIGHWAYNET_KERNEL"}
    command = [sys.executable, "-W", "error", "-c", code]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=inherited | environment)


def test_the_kernels_are_compiled_where_there_is_a_compiler() -> None:
    if not any(shutil.which(name) for name in ("c++", "g++", "clang++")):
        pytest.skip("no C++ compiler")
    shown = python("from highwaynet.kernels.native import active_kernel; print(active_kernel())", HIGHWAYNET_KERNEL="native")
    assert shown.stdout.startswith("native ("), shown.stderr


def test_the_variable_chooses() -> None:
    code = (
        "import sys; from highwaynet.kernels.native import active_kernel; print(active_kernel(), 'torch' in sys.modules);"
        "import torch; from highwaynet.kernels.gating import can_gate; print(can_gate(torch.ones(2, 3), torch.ones(2, 6)))"
    )
    assert python(code, HIGHWAYNET_KERNEL="torch").stdout == "torch False\nFalse\n"
    unset = python(code).stdout
    assert unset in {"torch False\nFalse\n", *(f"native ({name}) False\nTrue\n" for name in ("avx512", "avx2", "baseline"))}
    if unset.startswith("native"):
        assert python(code, HIGHWAYNET_KERNEL="native").stdout == unset


def test_a_wrong_variable_is_named_at_the_first_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIGHWAYNET_KERNEL", "cuda")
    with pytest.raises(InputError, match=r"HIGHWAYNET_KERNEL = 'cuda'.*native and torch"):
        active_kernel()
    code = (
        "import torch; from highwaynet.base.errors import InputError; from highwaynet.kernels.gating import can_gate\n"
        "try:\n    can_gate(torch.ones(2, 3), torch.ones(2, 6))\nexcept InputError as error:\n    print(error)"
    )
    assert "HIGHWAYNET_KERNEL = 'cuda'" in python(code, HIGHWAYNET_KERNEL="cuda").stdout


def test_missing_kernels_are_an_error_only_for_those_who_insist(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "highwaynet.kernels._native", None)
    monkeypatch.delattr("highwaynet.kernels._native", raising=False)
    monkeypatch.delenv("HIGHWAYNET_KERNEL", raising=False)
    assert active_kernel() == "torch"
    monkeypatch.setenv("HIGHWAYNET_KERNEL", "native")
    with pytest.raises(InputError, match="install a C\\+\\+ compiler"):
        active_kernel()


@needs_native
def test_only_fitting_tensors_are_taken() -> None:
    x, z = torch.ones(4, 3), torch.ones(4, 6)
    images, double = torch.ones(2, 3, 5, 5), torch.ones(2, 6, 5, 5)
    last = torch.channels_last
    assert can_gate(x, z)
    assert can_gate(nn.Parameter(x), z)
    assert can_gate(images.contiguous(memory_format=last), double.contiguous(memory_format=last))
    refused = [
        (x.double(), z.double()),
        (x, z.bfloat16()),
        (x, torch.ones(4, 3)),
        (x, torch.ones(5, 6)),
        (torch.ones(3, 4).T, z),
        (x, torch.ones(4, 12)[:, ::2]),
        (x[:1].expand(4, 3), z),
        (images, double),
        (images.contiguous(memory_format=last), double),
        (images.contiguous(memory_format=last), torch.ones(2, 6, 5, 4).contiguous(memory_format=last)),
        (torch.ones(2, 4, 3), torch.ones(2, 4, 6)),
        (torch.ones(3), torch.ones(6)),
        (x.to("meta"), z.to("meta")),
        (x, z.to_sparse()),
    ]
    for a, b in refused:
        assert not can_gate(a, b)
        with pytest.raises(ValueError, match="can_gate"):
            gate(a, b, "relu")
    with pytest.raises(ValueError, match="unknown activation 'gelu'"):
        gate(x, z, "gelu")


@needs_native
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_transformed_and_traced_code_uses_the_formula() -> None:
    x, z = torch.randn(4, 3), torch.randn(4, 6)
    expected = mixed(x, z)
    assert not torch.func.vmap(lambda a, b: torch.tensor(can_gate(a[None], b[None])))(x, z).any()
    torch.testing.assert_close(torch.func.vmap(lambda a, b: mixed(a[None], b[None])[0])(x, z), expected)
    gradient = torch.func.grad(lambda a: mixed(a, z).sum())(x)
    torch.testing.assert_close(gradient, 1 - torch.sigmoid(z[:, 3:]))
    with forward_ad.dual_level():
        tangent = forward_ad.unpack_dual(mixed(forward_ad.make_dual(x, torch.ones_like(x)), z)).tangent
    torch.testing.assert_close(tangent, gradient)


@needs_native
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("strict", [False, True])
def test_exported_models_need_no_kernel_of_ours(strict: bool) -> None:
    x, z = torch.randn(4, 3), torch.randn(4, 6)
    program = torch.export.export(Mixing(), (x, z), strict=strict)
    assert "highwaynet" not in program.graph_module.code
    assert "highwaynet::" not in str(torch.jit.trace(Mixing(), (x, z)).graph)  # comments have the path of this file
    torch.testing.assert_close(program.module()(x, z), mixed(x, z))


@needs_native
@pytest.mark.parametrize("shape", [(33, 17), (2, 16, 3, 5)])
def test_compiled_code_uses_the_operator(shape: tuple[int, ...]) -> None:
    def run(function: nn.Module) -> list[Tensor]:
        torch.manual_seed(0)
        layout = torch.channels_last if len(shape) == 4 else torch.contiguous_format
        x = torch.randn(shape).contiguous(memory_format=layout).requires_grad_()
        z = torch.randn(shape[0], 2 * shape[1], *shape[2:]).contiguous(memory_format=layout).requires_grad_()
        y = function(x, z)
        return [y, *torch.autograd.grad(y.square().sum(), (x, z))]

    graphs: list[str] = []

    def keep(graph: torch.fx.GraphModule, inputs: list[Tensor]) -> torch.fx.GraphModule:
        graphs.append(graph.code)
        return graph

    compiled = torch.compile(Mixing(), backend=keep, fullgraph=True)
    assert all(torch.equal(a, b) for a, b in zip(run(compiled), run(Mixing()), strict=True))
    assert "highwaynet.gate" in graphs[0]
    traced = torch.compile(Mixing(), backend="aot_eager", fullgraph=True)
    assert all(torch.equal(a, b) for a, b in zip(run(traced), run(Mixing()), strict=True))


@needs_native
@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="the system does not list a process's libraries")
def test_one_openmp_runtime_and_it_is_used() -> None:
    code = (
        "import os, torch; torch.set_num_threads(2); from highwaynet.kernels.gating import gate\n"
        "before = len(os.listdir('/proc/self/task'))\n"
        "gate(torch.ones(4096, 16), torch.ones(4096, 32), 'relu')\n"
        "print(len(os.listdir('/proc/self/task')) - before)\n"
        "paths = {line.split()[-1] for line in open('/proc/self/maps') if '/' in line}\n"
        "print(len([path for path in paths if os.path.basename(path).startswith(('libgomp', 'libiomp', 'libomp'))]))"
    )
    result = python(code, OMP_NUM_THREADS="2")
    assert result.stdout == "1\n1\n", result.stderr


HOOKS = {
    "compressed": (lambda tensor: tensor.bfloat16(), lambda tensor: tensor),
    "expanded": (lambda tensor: (tensor.shape, tensor.mean()), lambda kept: kept[1].expand(kept[0])),
    "rearranged": (lambda tensor: tensor.contiguous(), lambda tensor: tensor),
}


@needs_native
@pytest.mark.parametrize("name", HOOKS)
def test_saved_tensors_that_come_back_otherwise_are_read_as_they_are(name: str) -> None:
    torch.manual_seed(0)
    start = [torch.randn(2, channels, 5, 5).contiguous(memory_format=torch.channels_last) for channels in (16, 32)]

    def gradients(native: bool) -> list[Tensor]:
        x, z = (tensor.clone().requires_grad_() for tensor in start)
        pack, unpack = HOOKS[name]
        if native:
            with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
                y = gate(x, z, "relu")
        else:  # the formula, on what the hooks make of the tensors
            saved = [unpack(pack(tensor.detach())).float().requires_grad_() for tensor in start]
            h, t = saved[1].chunk(2, dim=1)
            y = torch.lerp(saved[0], torch.relu(h), torch.sigmoid(t))
            x, z = saved
        return list(torch.autograd.grad(y.sum(), [x, z]))

    for mine, theirs in zip(gradients(native=True), gradients(native=False), strict=True):
        torch.testing.assert_close(mine.float(), theirs, atol=0.02 if name == "compressed" else 1e-5, rtol=0.02)


@needs_native
def test_tensors_whose_memory_says_something_else_are_not_taken() -> None:
    x, z = torch.randn(4, 16), torch.randn(4, 32)
    assert can_gate(x, z)
    assert not can_gate(torch._neg_view(x), z)
    assert not can_gate(torch._efficientzerotensor((4, 16)), z)
    assert not can_gate(x.to_mkldnn(), z)
