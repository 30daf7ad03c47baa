"""Random calls of all registered operators: each agrees with the readable version in torch, or is refused with a sentence.

    python tests/kernels/fuzz_operators.py --minutes 10 --seed 1

Shapes (also 0 and 1), types, strides, names, threads and instruction sets are random; some calls have one wrong argument. With `--module`,
the compiled module is loaded from a file, for instance one built with sanitizers (`cmake -DHIGHWAYNET_CHECKED=ON`, see
test_sanitizers.py). A case depends only on its number: `--first N --cases 1 --verbose` repeats it.
"""

import argparse
import functools
import importlib.util
import random
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

OPERATORS: Any = torch.ops.highwaynet
REFUSALS = (ValueError, TypeError, RuntimeError, NotImplementedError)
SIZES = (0, 1, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 24, 31, 33, 50, 64, 65, 70)
KINDS, ACTIVATIONS = ("highway", "plain", "residual"), ("relu", "tanh", "sigmoid", "identity")


class Case(NamedTuple):
    """A call of an operator, and its arguments by name."""

    operator: str
    arguments: dict[str, Any]


Twin = Callable[[dict[str, Any]], tuple[Tensor, ...]]


class MismatchError(Exception):
    """An operator that gives other numbers, takes what does not fit, or does not say what is wrong."""


# ----- Arguments that fit


class Draw:
    """Random sizes and tensors of one case."""

    def __init__(self, number: int) -> None:
        self.random = random.Random(number)
        self.generator = torch.Generator().manual_seed(number)

    def size(self, least: int = 0, most: int = 1000) -> int:
        return self.random.choice([size for size in SIZES if least <= size <= most])

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def normal(self, *shape: int, scale: float = 1.0) -> Tensor:
        return torch.randn(*shape, generator=self.generator) * scale

    def closed(self, layers: int) -> list[int]:
        return [number for number in range(1, layers + 1) if self.chance(0.3)] if self.chance(0.3) else []


def gate_case(draw: Draw) -> Case:
    if draw.chance(0.5):
        shape = [draw.size(), draw.size()]
        x, z, gy = (draw.normal(shape[0], parts * shape[1]) for parts in (1, 2, 1))
    else:
        shape = [draw.size(most=5), draw.size(most=33), draw.size(most=9), draw.size(most=9)]
        x, z, gy = (draw.normal(shape[0], parts * shape[1], *shape[2:]) for parts in (1, 2, 1))
    if draw.chance(0.05):  # enough for several threads
        x, z, gy = (draw.normal(2100, parts * 17) for parts in (1, 2, 1))
    names = {"x": x, "z": z, "activation": draw.random.choice(ACTIVATIONS)}
    return Case("gate", names) if draw.chance(0.5) else Case("gate_backward", {"gy": gy, **names})


def maxout_case(draw: Draw) -> Case:
    pieces, axes = draw.random.choice((2, 2, 3, 4, 5, 32)), draw.random.choice((2, 4))
    rows, width, *pixels = [draw.size(), draw.size()] if axes == 2 else [draw.size(most=n) for n in (5, 33, 9, 9)]
    if draw.chance(0.05):  # enough for several threads
        rows, width, pixels = 2100, 17, []
    z, gy = draw.normal(rows, pieces * width, *pixels), draw.normal(rows, width, *pixels)
    return Case("maxout", {"z": z, "pieces": pieces}) if draw.chance(0.5) else Case("maxout_backward", {"gy": gy, "z": z, "pieces": pieces})


def convolution_case(draw: Draw) -> Case:
    samples, height, width = draw.size(most=5), draw.size(1, 17), draw.size(1, 17)
    inputs, outputs = (draw.random.choice((16, 16, 17, 24, 32, 47, 65, 80)) for _ in range(2))
    if draw.chance(0.05):  # enough for several threads
        samples, inputs, outputs, height, width = 12, 32, 48, 17, 15
    weight = draw.normal(outputs, inputs, 3, 3, scale=1 / (9 * inputs) ** 0.5)
    x, gy, bias = draw.normal(samples, inputs, height, width), draw.normal(samples, outputs, height, width), draw.normal(outputs)
    if draw.chance(0.5):
        return Case("convolution", {"x": x, "weight": weight, "bias": bias if draw.chance(0.7) else None})
    return Case(
        "convolution_backward", {"gy": gy, "x": x, "weight": weight, "for_x": True, "for_weight": True, "for_bias": True, "_bias": bias}
    )


def stack_case(draw: Draw) -> Case:
    kind, layers, rows, width = draw.random.choice(KINDS), draw.random.choice((0, 1, 2, 3, 6)), draw.size(), draw.size()
    if draw.chance(0.1):  # other paths: products of the library, copied weights, several parts
        layers, (rows, width) = 2, draw.random.choice([(1, 260), (2, 520), (70, 520), (2100, 7), (300, 40)])
    parts = 2 if kind == "highway" else 1
    x, gy = draw.normal(rows, width), draw.normal(rows, width)
    weight, bias = draw.normal(layers, parts * width, width, scale=0.5 / max(width, 1) ** 0.5), draw.normal(layers, parts * width)
    names = {"kind": kind, "activation": draw.random.choice(ACTIVATIONS), "closed": draw.closed(layers)}
    if draw.chance(0.5):
        return Case("dense_stack", {"x": x, "weight": weight, "bias": bias, **names, "keep": draw.chance(0.5)})
    kept = OPERATORS.dense_stack(x, weight, bias, *names.values(), True)[1]
    return Case("dense_stack_backward", {"gy": gy, "weight": weight, "kept": kept, **names, "_x": x, "_bias": bias})


def recurrent_case(draw: Draw) -> Case:
    steps, rows, inputs, width = draw.size(1, 9), draw.size(1, 33), draw.size(0, 33), draw.size(1)
    if draw.chance(0.05):
        steps, rows = 3, 300
    depth, parts = draw.random.choice((1, 2, 3)), draw.random.choice((2, 3))
    lengths = sorted((draw.random.randint(1, steps) if draw.chance(0.5) else steps for _ in range(rows)), reverse=True)
    counts = torch.tensor([sum(length > step for length in lengths) for step in range(lengths[0])])
    total = int(counts.sum())
    tensors = {
        "x": draw.normal(total, inputs),
        "start": draw.normal(rows, width),
        "input_weight": draw.normal(parts * width, inputs, scale=max(inputs, 1) ** -0.5),
        "weight": draw.normal(depth, parts * width, width, scale=0.5 / width**0.5),
    }
    bias, mask = draw.normal(depth, parts * width, scale=0.3), draw.normal(rows, width) if draw.chance(0.5) else None
    names = {"activation": draw.random.choice(ACTIVATIONS), "closed": draw.closed(depth)}
    if draw.chance(0.5):
        return Case("recurrent", {**tensors, "bias": bias, "mask": mask, "counts": counts, **names, "keep": draw.chance(0.5)})
    kept = OPERATORS.recurrent(*tensors.values(), bias, mask, counts, *names.values(), True)[1]
    backward = {"gy": draw.normal(total, width), **tensors, "mask": mask, "counts": counts, "kept": kept, **names}
    return Case("recurrent_backward", {**backward, "_bias": bias})


# ----- The same in torch, in double precision


def _double(arguments: dict[str, Any]) -> dict[str, Any]:
    return {name: value.double() if isinstance(value, Tensor) and name != "counts" else value for name, value in arguments.items()}


def _gradients(y: Tensor, leaves: list[Tensor], gy: Tensor) -> tuple[Tensor, ...]:
    if gy.shape != y.shape:
        raise ValueError("the gradient has another shape")
    return torch.autograd.grad(y, leaves, gy, materialize_grads=True)


def gate_twin(x: Tensor, z: Tensor, activation: str) -> Tensor:
    if z.shape != (*x.shape[:1], 2 * x.shape[1], *x.shape[2:]):
        raise ValueError("z has another shape")
    h, t = z.chunk(2, dim=1)
    return torch.lerp(x, h if activation == "identity" else getattr(torch, activation)(h), torch.sigmoid(t))


def maxout_twin(z: Tensor, pieces: int) -> Tensor:
    if z.dim() not in {2, 4} or not 2 <= pieces <= 32 or z.shape[1] % pieces:
        raise ValueError("z has another shape")
    # Not by chunks, of which torch makes one if there is nothing to divide.
    return functools.reduce(torch.maximum, z.unflatten(1, (pieces, z.shape[1] // pieces)).unbind(1))


def convolution_twin(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    if x.dim() != 4 or weight.shape[2:] != (3, 3):
        raise ValueError("x or weight has another shape")
    if 0 in x.shape[2:]:  # torch refuses maps without pixels
        y = x[:, :1] * weight.sum(dim=(1, 2, 3)).view(1, -1, 1, 1)
        return y if bias is None else y + bias.view(-1, 1, 1)
    return torch.nn.functional.conv2d(x, weight, bias, padding=1)


def expected(case: Case) -> tuple[Tensor, ...]:
    """The operator's outputs, except for what it keeps; raises an error if the arguments do not fit."""
    from highwaynet.kernels.dense_stack import stack_in_torch
    from highwaynet.kernels.recurrent import recurrent_in_torch

    a = _double(case.arguments)
    names = {name: a[name] for name in ("activation", "closed", "kind", "mask", "counts") if name in a}
    if case.operator.startswith("gate"):
        inputs, function = [a["x"], a["z"]], lambda x, z: gate_twin(x, z, a["activation"])
    elif case.operator.startswith("maxout"):
        inputs, function = [a["z"]], lambda z: maxout_twin(z, a["pieces"])
    elif case.operator.startswith("convolution"):
        bias = a.get("bias", a.get("_bias"))
        inputs, function = [a["x"], a["weight"], *([] if bias is None else [bias])], lambda x, w, b=None: convolution_twin(x, w, b)
    elif case.operator.startswith("dense_stack"):
        inputs = [a.get("x", a.get("_x")), a["weight"], a.get("bias", a.get("_bias"))]
        function = lambda *t: stack_in_torch(*t, **names)  # noqa: E731
    else:
        tensors = [a[name] for name in ("x", "start", "input_weight", "weight")]
        inputs, function = [*tensors, a.get("bias", a.get("_bias"))], lambda *t: recurrent_in_torch(*t, **names)
    leaves = [tensor.detach().clone().requires_grad_() for tensor in inputs]
    y = function(*leaves)
    return _gradients(y, leaves, a["gy"]) if "gy" in a else (y.detach(),)


# ----- Other memory, and wrong arguments


def restrided(draw: Draw, tensor: Tensor) -> Tensor:
    """The same values, or some of them repeated, at other places in memory."""
    how = draw.random.choice(("turned", "spaced", "offset", "expanded", "negated", "channels"))
    if how == "turned" and tensor.dim() > 1:
        return tensor.transpose(0, -1).contiguous().transpose(0, -1)
    if how == "spaced":
        return torch.stack([tensor, tensor], dim=-1)[..., 1]
    if how == "offset":
        return torch.cat([tensor.new_zeros(3), tensor.flatten()])[3:].view(tensor.shape)
    if how == "expanded" and tensor.is_floating_point() and tensor.dim() > 1 and len(tensor):
        return tensor[:1].expand(tensor.shape)
    if how == "negated" and tensor.is_floating_point():
        return torch._neg_view(-tensor)
    return tensor.contiguous(memory_format=torch.channels_last) if tensor.dim() == 4 else tensor


def spoiled(draw: Draw, value: Any) -> Any:
    """Something that does not fit in the place of this argument, or only by chance."""
    if isinstance(value, str):
        return draw.random.choice(["gelu", "", "Relu", "highway ", None, 3, *ACTIVATIONS, *KINDS])
    if isinstance(value, list):
        return draw.random.choice([[0], [-1], [99], [2**40], [1, 1], None, "x"])
    if isinstance(value, int):
        return value if isinstance(value, bool) else draw.random.choice([0, 1, -2, 7, 33, 2**40, None, "x"])
    if not isinstance(value, Tensor):
        return torch.ones(3, 4)
    axis = draw.random.randrange(value.dim()) if value.dim() else 0
    types = (torch.float64, torch.bfloat16, torch.float16, torch.int32, torch.int64, torch.bool, torch.uint8, torch.complex64)
    choices: list[Callable[[], Any]] = [
        lambda: value.to(draw.random.choice(types)),
        lambda: value.unsqueeze(axis),
        lambda: value.select(axis, 0),
        lambda: torch.cat([value, value.narrow(axis, 0, 1)], dim=axis),
        lambda: value.narrow(axis, 0, value.shape[axis] - 1),
        lambda: value.narrow(axis, 0, 0),
        lambda: value.transpose(0, -1),
        value.flatten,
        lambda: value.to("meta"),
        value.to_sparse,
        lambda: value + 1,
        lambda: value * -3,
        lambda: torch.randn(draw.size(), draw.size()),
        lambda: torch.empty(0),
        lambda: torch.tensor(3.0),
        lambda: None,
        lambda: "x",
    ]
    try:
        return draw.random.choice(choices)()
    except (RuntimeError, IndexError):  # an axis that is not there
        return torch.empty(0)


# ----- One case


def close(mine: Tensor, right: Tensor, activation: str) -> bool:
    """Whether the error is that of float32; where ReLU bends, a number near 0 may fall on either side."""
    if mine.shape != right.shape or mine.dtype not in {torch.float32, torch.bfloat16}:
        return False
    if mine.is_meta or not right.isfinite().all():
        return True
    return bool(
        (mine.double() - right).norm()
        <= (5e-2 if activation == "relu" else 1e-3 if mine.dtype is torch.float32 else 1e-2) * right.norm() + 1e-4
    )


def run(case: Case, differentiate: bool) -> tuple[Tensor, ...]:
    """Call the operator, or the forward operator and its gradients by autograd."""
    arguments = [value for name, value in case.arguments.items() if not name.startswith("_")]
    operator = getattr(OPERATORS, case.operator)
    if not differentiate:
        found = operator(*arguments)
        found = found if isinstance(found, tuple) else (found,)
        return found if case.operator.endswith("_backward") else found[:1]
    differentiated = ("x", "z", "weight", "bias", "start", "input_weight")
    given = [value for name, value in case.arguments.items() if name in differentiated and value is not None]
    leaves = [value.detach().requires_grad_() for value in given]
    y = operator(*leaves, *arguments[len(leaves) :])
    y = y[0] if isinstance(y, tuple) else y
    return (y.detach(), *torch.autograd.grad(y.sum(), leaves, materialize_grads=True))


def drawn(draw: Draw) -> tuple[Case, str]:
    """A call, and the name of its wrong argument, if there is one."""
    operator, arguments = draw.random.choice((gate_case, maxout_case, convolution_case, stack_case, recurrent_case))(draw)
    if operator.startswith(("gate", "maxout")) and draw.chance(0.3):
        arguments = {name: value.bfloat16() if isinstance(value, Tensor) else value for name, value in arguments.items()}
    for name, value in arguments.items():
        if isinstance(value, Tensor) and not name.startswith("_") and name != "kept" and draw.chance(0.3):
            free = not operator.endswith("_backward") or name == "gy"  # others must be what the forward pass saw
            other = restrided(draw, value)
            arguments[name] = other if free or torch.equal(other, value) else value
    wrong = draw.random.choice([name for name in arguments if not name.startswith("_")]) if draw.chance(0.35) else ""
    if wrong:
        arguments[wrong] = spoiled(draw, arguments[wrong])
    return Case(operator, arguments), wrong


def compare(case: Case, found: tuple[Tensor, ...], differentiate: bool) -> None:
    """Raise ValueError if the outputs are not those of the readable version."""
    try:
        right = expected(case)
        if differentiate:
            right = (*right, *expected(Case(case.operator, {**case.arguments, "gy": torch.ones_like(right[0])})))
    except (*REFUSALS, KeyError, AttributeError) as error:
        raise ValueError(f"taken, although the arguments do not fit ({error})") from error
    for place, (mine, exact) in enumerate(zip(found, right, strict=True)):
        if not close(mine, exact, case.arguments.get("activation", "identity")):
            raise ValueError(f"output {place} {tuple(mine.shape)} differs: by {(mine.double() - exact).abs().max():.3g}")


def check(number: int, verbose: bool) -> str:
    """Try one case; returns what happened, and raises MismatchError if it is wrong."""
    from highwaynet.kernels.operators import compiled

    draw, native = Draw(number), compiled()
    native.use_instruction_set(draw.random.choice(native.instruction_sets()))
    torch.set_num_threads(draw.random.choice((1, 1, 2, 3)))
    case, wrong = drawn(draw)
    operator, arguments = case
    differentiate = not wrong and not operator.endswith("_backward") and draw.chance(0.4)
    if differentiate and "keep" in arguments:
        arguments["keep"] = True
    forms = {name: (tuple(value.shape), value.dtype) if isinstance(value, Tensor) else value for name, value in arguments.items()}
    text = f"case {number}: {operator}{' with gradients' if differentiate else ''}, wrong: {wrong or 'nothing'}, {forms}"
    if verbose:
        print(text, flush=True)
    try:
        found = run(case, differentiate)
    except REFUSALS as error:
        lines = str(error).splitlines() or [""]
        if not wrong or f"highwaynet::{operator}" not in lines[0]:
            raise MismatchError(f"{text}: {type(error).__name__}: {lines[0]}") from error
        return "refused"
    if operator in {"dense_stack_backward", "recurrent_backward"} and wrong not in {"", "gy"}:
        return "taken"  # other values of the right shape, which are not those of the forward pass: nothing to compare with
    try:
        compare(case, found, differentiate)
    except ValueError as error:
        raise MismatchError(f"{text}: {error}") from error
    return "agreed"


def load(path: str) -> None:
    """Use the compiled module in this file instead of the installed one."""
    import highwaynet.kernels

    spec = importlib.util.spec_from_file_location("highwaynet.kernels._native", path)
    if spec is None or spec.loader is None:
        sys.exit(f"--module {path}: not a module")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.modules[module.__name__] = module
    highwaynet.kernels._native = module  # type: ignore[attr-defined]


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--cases", type=int, help="stop after this many")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--module", help="file of the compiled module")
    parser.add_argument("--verbose", action="store_true", help="show each case before it runs")
    options = parser.parse_args()
    if options.module:
        load(options.module)
    from highwaynet.kernels import convolution, dense_stack, gating, maxout, recurrent  # noqa: F401 (these register the operators)

    end, counts, failures = time.monotonic() + 60 * options.minutes, dict[str, int](), 0
    number = options.first
    while time.monotonic() < end and (options.cases is None or number - options.first < options.cases):
        try:
            outcome = check(options.seed * 1_000_000 + number, options.verbose)
        except MismatchError as error:
            outcome, failures = "failed", failures + 1
            print(error, flush=True)
        counts[outcome] = counts.get(outcome, 0) + 1
        number += 1
    print(f"{number - options.first} cases: {', '.join(f'{count} {outcome}' for outcome, count in sorted(counts.items()))}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
