"""From a run directory back to its trained network."""

from highwaynet.base.errors import InputError
from highwaynet.base.randomness import generator_for
from highwaynet.data.record import DataRecord
from highwaynet.networks.build import Network, build_network
from highwaynet.runs.checkpoints import FINAL, Kept
from highwaynet.runs.directory import RunDirectory
from highwaynet.runs.spec import RunSpec


def fresh_network(spec: RunSpec, data: DataRecord) -> Network:
    """The network of a run before its first step."""
    return build_network(spec.network, data.input_shape, data.outputs, generator=generator_for(spec.seed, "weights"))


def load_network(run: RunDirectory, checkpoint: Kept = FINAL, *, data: DataRecord | None = None) -> Network:
    """The trained network of a run, in evaluation mode; raises InputError if the directory is damaged.

    `data` is the record of the run's preparation, where the caller has read it already.
    """
    network = fresh_network(run.read_spec(), data or run.load_preparation().record)
    try:
        network.load_state_dict(run.checkpoints.load(run.resolve(checkpoint))[0])
    except RuntimeError as error:
        raise InputError(
            f"{run.path}: the checkpoint {checkpoint!r} does not fit the network in spec.toml; one of them was changed"
        ) from error
    return network.eval()
