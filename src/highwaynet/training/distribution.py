"""Training one network with several processes that torchrun starts; with one process everything here is trivial."""

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
    """Another process of the run ended, so this one cannot continue."""

    told = True


@dataclass(frozen=True)
class World:
    """The processes of a run, and the rank of this one."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    """The rank among the processes of this machine."""
    restarts: int = 0
    """How often torchrun has restarted the processes."""
    store: Store | None = None
    """A key-value store that survives restarts."""

    def remember(self, key: str, value: str) -> None:
        """Store a value for the processes that replace these after a restart."""
        if self.store is not None and self.leads:
            self.store.set(f"highwaynet {key}", value)

    def recall(self, key: str) -> str | None:
        """Return what the processes before the last restart stored; None if nothing."""
        name = f"highwaynet {key}"
        if self.store is None or not self.restarts or not self.store.check([name]):
            return None
        return bytes(self.store.get(name)).decode()

    @property
    def leads(self) -> bool:
        """Whether this is the leading process, the only one that reads and writes files and reports."""
        return self.rank == 0

    def share(self, total: int) -> Share:
        """This process's share of a batch."""
        return Share.of(total, self.rank, self.size)

    def most(self, *values: float) -> tuple[float, ...]:
        """Return, for each value, its maximum over all processes."""
        if self.size == 1:
            return values
        tensor = torch.tensor(values, dtype=torch.float64)
        dist.all_reduce(tensor, dist.ReduceOp.MAX)
        return tuple(tensor.tolist())

    def total(self, tensor: Tensor) -> Tensor:
        """Return the sum of a tensor over all processes."""
        if self.size == 1:
            return tensor
        summed = tensor.clone()
        dist.all_reduce(summed)
        return summed

    def gather(self, tensor: Tensor) -> list[Tensor]:
        """Return the tensors of all processes, by rank."""
        if self.size == 1:
            return [tensor]
        gathered = [torch.empty_like(tensor) for _ in range(self.size)]
        dist.all_gather(gathered, tensor)
        return gathered

    def same_buffers(self, network: nn.Module) -> None:
        """Copy the buffers of the leading process to all: each process has batch norm statistics of its own samples."""
        if self.size > 1:
            for buffer in network.buffers():
                dist.broadcast(buffer, 0)

    def lead(self, work: Callable[[], bytes]) -> bytes:
        """Run `work` in the leading process and return its result in all. Its errors are raised in all, but reported only once."""
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
"""Environment variables in which torchrun describes the processes."""


@contextmanager
def join_world(device: str | None) -> Iterator[World]:
    """Join the processes that torchrun started; without torchrun, yield a world of one process. CPU tensors use gloo, CUDA tensors nccl."""
    if not launched():
        yield ALONE
        return
    rank, size, local_rank, restarts = (int(os.environ.get(name, "0")) for name in VARIABLES)
    world = World(rank, size, local_rank, restarts)
    cuda = torch.cuda.is_available() if device is None else device.startswith("cuda")
    try:
        # After a restart the store still has the addresses of the killed processes, so each start uses a prefix of its own.
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
            raise LostProcessError("another process of this run ended, so this one cannot continue") from error
        raise
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()
