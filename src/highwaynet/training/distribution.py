"""Several processes that train one network together, started by torchrun; one process is the usual case."""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.distributed_c10d import PrefixStore, Store
from torch.distributed.rendezvous import rendezvous

from highwaynet.base.errors import HighwayError, InputError
from highwaynet.base.launch import launched
from highwaynet.base.share import Share


class LostProcessError(HighwayError):
    """Another process of the run ended, so that this one cannot go on."""

    told = True


@dataclass(frozen=True)
class World:
    """The processes of a run and this one's place among them."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    """The place among the processes of this machine."""
    restarts: int = 0
    """How often torchrun has started the processes anew."""
    store: Store | None = None
    """What outlives processes that are started anew."""

    def remember(self, key: str, value: str) -> None:
        """Keep a word for processes that are started anew in place of these."""
        if self.store is not None and self.leads:
            self.store.set(f"highwaynet {key}", value)

    def recall(self, key: str) -> str | None:
        """What processes before these kept."""
        name = f"highwaynet {key}"
        if self.store is None or not self.restarts or not self.store.check([name]):
            return None
        return bytes(self.store.get(name)).decode()

    @property
    def leads(self) -> bool:
        """Whether this is the one process that reads, writes and speaks."""
        return self.rank == 0

    def share(self, total: int) -> Share:
        """This process's share of a batch."""
        return Share.of(total, self.rank, self.size)

    def most(self, *values: float) -> tuple[float, ...]:
        """The largest of each value over all processes."""
        if self.size == 1:
            return values
        tensor = torch.tensor(values, dtype=torch.float64)
        dist.all_reduce(tensor, dist.ReduceOp.MAX)
        return tuple(tensor.tolist())

    def total(self, tensor: Tensor) -> Tensor:
        """The sum over all processes."""
        if self.size == 1:
            return tensor
        summed = tensor.clone()
        dist.all_reduce(summed)
        return summed

    def gather(self, tensor: Tensor) -> list[Tensor]:
        """Everybody's tensor, in the order of the processes."""
        if self.size == 1:
            return [tensor]
        gathered = [torch.empty_like(tensor) for _ in range(self.size)]
        dist.all_gather(gathered, tensor)
        return gathered

    def same_buffers(self, network: nn.Module) -> None:
        """Give everybody the leading process's buffers: batch norm's running statistics, which each gathers from its own samples."""
        if self.size > 1:
            for buffer in network.buffers():
                dist.broadcast(buffer, 0)

    def lead(self, work: Callable[[], bytes]) -> bytes:
        """What the leading process finds; the others wait for it. Its errors are everybody's, and only it tells them."""
        if self.size == 1:
            return work()
        if not self.leads:
            failed, answer = self._hear()
            if failed:
                told = json.loads(answer)
                error = InputError(told["text"]) if told["code"] == InputError.exit_code else HighwayError(told["text"])
                error.told = True
                raise error
            return answer
        try:
            answer = work()
        except HighwayError as error:
            self._tell(json.dumps({"text": str(error), "code": error.exit_code}).encode(), failed=True)
            raise
        self._tell(answer, failed=False)
        return answer

    def _tell(self, answer: bytes, *, failed: bool) -> None:
        dist.broadcast(torch.tensor([failed, len(answer)], dtype=torch.int64), 0)
        if answer:
            dist.broadcast(torch.frombuffer(bytearray(answer), dtype=torch.uint8), 0)

    def _hear(self) -> tuple[bool, bytes]:
        head = torch.empty(2, dtype=torch.int64)
        dist.broadcast(head, 0)
        failed, length = head.tolist()
        content = torch.empty(length, dtype=torch.uint8)
        if length:
            dist.broadcast(content, 0)
        return bool(failed), content.numpy().tobytes()


ALONE = World()
VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "TORCHELASTIC_RESTART_COUNT")
"""What torchrun tells a process about its place."""


@contextmanager
def join_world(device: str | None) -> Iterator[World]:
    """The world that torchrun made, or the process alone. CPU tensors travel by gloo, those of CUDA by nccl."""
    if not launched():
        yield ALONE
        return
    rank, size, local_rank, restarts = (int(os.environ.get(name, "0")) for name in VARIABLES)
    world = World(rank, size, local_rank, restarts)
    cuda = torch.cuda.is_available() if device is None else device.startswith("cuda")
    try:
        # Processes that torchrun starts anew find the store as the killed ones left it, with addresses where nobody listens any more.
        store, _, _ = next(rendezvous("env://"))
        own = PrefixStore(f"start {world.restarts}", store)
        dist.init_process_group("cpu:gloo,cuda:nccl" if cuda else "gloo", store=own, rank=world.rank, world_size=world.size)
        yield replace(world, store=store)
    except HighwayError as error:
        if not world.leads:
            error.told = error.told or error.everywhere
            error.own = True
        raise
    except RuntimeError as error:
        if any(word in str(error).lower() for word in ("gloo", "nccl", "connection", "socket")):
            raise LostProcessError("another process of this run ended, so that this one cannot go on") from error
        raise
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()
