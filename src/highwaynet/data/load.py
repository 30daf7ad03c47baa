"""DataSpec → Dataset."""

from highwaynet.base.errors import InputError
from highwaynet.base.randomness import generator_for
from highwaynet.data.catalogue import CATALOGUE
from highwaynet.data.dataset import Dataset, Split
from highwaynet.data.digits import read_digits
from highwaynet.data.division import stratified_division
from highwaynet.data.spec import DataSpec


def load_dataset(spec: DataSpec) -> Dataset:
    """Read a data set and divide it. The test part is fixed; the validation part follows `spec.split_seed`."""
    description = CATALOGUE[spec.name]
    inputs, targets = read_digits()
    everything = Split(inputs, targets, description.full_scale)
    # digits has no official test set: ours is a fifth of each class, the same for everybody.
    rest, test = stratified_division(targets, description.test / len(targets), generator_for(0, "digits", "test"))
    train, validation = everything.select(rest), None
    if spec.validation > 0:
        kept, drawn = stratified_division(train.targets, spec.validation, generator_for(spec.split_seed, spec.name, "validation"))
        if not len(drawn):
            raise InputError(f"data.validation = {spec.validation}: leaves no sample of {len(train)} for validation; use 0 or more")
        train, validation = train.select(kept), train.select(drawn)
    return Dataset(spec.name, description, train, validation, everything.select(test))
