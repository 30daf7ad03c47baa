"""From a run directory back to its trained network."""

from highwaynet.base.errors import InputError
from highwaynet.base.randomness import generator_for
from highwaynet.data.catalogue import CATALOGUE
from highwaynet.networks.build import build_network
from highwaynet.networks.dense import DenseNetwork
from highwaynet.runs.directory import FINAL, RunDirectory
from highwaynet.runs.spec import RunSpec


def fresh_network(spec: RunSpec) -> DenseNetwork:
    """The network of a run before its first step."""
    data = CATALOGUE[spec.data.name]
    generator = generator_for(spec.seed, "weights")
    return build_network(spec.network, data.input_shape, len(data.class_names), generator=generator)


def load_network(run: RunDirectory, checkpoint: str = FINAL) -> DenseNetwork:
    """The trained network of a run, in evaluation mode; raises InputError if the directory is damaged."""
    network = fresh_network(run.read_spec())
    try:
        network.load_state_dict(run.load_checkpoint(checkpoint))
    except RuntimeError as error:
        raise InputError(
            f"{run.path}: the checkpoint {checkpoint!r} does not fit the network in spec.toml; one of them was changed"
        ) from error
    return network.eval()
