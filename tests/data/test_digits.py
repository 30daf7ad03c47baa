"""The embedded data set: equal to scikit-learn's, divided class by class, the same for everybody."""

import hashlib
import json
import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from highwaynet import DataSpec
from highwaynet.base.errors import InputError
from highwaynet.base.randomness import generator_for
from highwaynet.data.catalogue import CATALOGUE
from highwaynet.data.digits import read_digits
from highwaynet.data.division import Permutations, divide
from highwaynet.data.load import load_dataset


def test_equals_what_scikit_learn_loads() -> None:
    # In a process of its own: scikit-learn brings a second OpenMP runtime.
    code = (
        "import hashlib, json; from sklearn.datasets import load_digits; d = load_digits();"
        "print(json.dumps([hashlib.sha256(a.tobytes()).hexdigest() for a in (d.images.astype('uint8'), d.target.astype('int64'))]))"
    )
    expected = json.loads(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
    assert [hashlib.sha256(array.tobytes()).hexdigest() for array in (read_digits().inputs, read_digits().targets)] == expected


def test_scikit_learn_is_not_imported() -> None:
    code = "from highwaynet.data.digits import read_digits; read_digits(); import sys; sys.exit('sklearn' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_catalogue_tells_the_truth() -> None:
    data, known = load_dataset(DataSpec(validation=0)), CATALOGUE["digits"]
    assert (len(data.train), len(data.test), data.validation) == (known.train, known.test, None)
    record = data.preparation.record
    assert (record.input_shape, len(record.class_names)) == (known.input_shape, known.classes)
    assert data.train.inputs.dtype == torch.uint8
    assert data.train.inputs.max() == known.full_scale
    assert sorted(data.train.targets.unique().tolist()) == list(range(known.classes))


def samples(*splits: object) -> list[bytes]:
    return sorted(row.numpy().tobytes() for split in splits for row in split.inputs[split.rows])


def test_the_parts_are_disjoint_complete_and_stratified() -> None:
    data = load_dataset(DataSpec(validation=0.2))
    assert data.validation is not None
    everything = load_dataset(DataSpec(validation=0))
    assert samples(data.train, data.validation) == samples(everything.train)
    assert samples(data.test) == samples(everything.test)
    assert len(data.train) + len(data.validation) + len(data.test) == 1797
    for part, share in ((data.train, 0.64), (data.validation, 0.16), (data.test, 0.2)):
        assert len(part) == pytest.approx(share * 1797, abs=1)
        shares = torch.bincount(part.targets[part.rows]) / torch.bincount(part.targets)
        assert (shares - share).abs().max() < 0.01


def test_the_split_seed_moves_validation_and_never_the_test_set() -> None:
    first, again, other = (load_dataset(DataSpec(split_seed=seed)) for seed in (0, 0, 1))
    assert None not in (first.validation, again.validation, other.validation)
    assert torch.equal(first.validation.rows, again.validation.rows)
    assert not torch.equal(first.validation.rows, other.validation.rows)
    assert torch.equal(first.test.rows, other.test.rows)


def test_batches_are_scaled_ordered_and_complete() -> None:
    split = load_dataset(DataSpec()).train
    order = torch.randperm(len(split), generator=generator_for(0, "test"))
    batches = list(split.batches(100, order))
    assert [len(targets) for _, targets in batches] == [100] * 12 + [94]
    inputs, targets = (torch.cat(parts) for parts in zip(*batches, strict=True))
    assert inputs.dtype == torch.float32
    assert torch.equal(inputs, split.inputs[split.rows[order]].float() / 16)
    assert torch.equal(targets, split.targets[split.rows[order]])
    assert torch.equal(torch.cat([x for x, _ in split.batches(7)]), split.inputs[split.rows].float() / 16)


def test_a_share_is_exact_even_for_uneven_classes() -> None:
    targets = np.array([0] * 3 + [1] * 7 + [2] * 90)
    rest, taken = divide(np.arange(100), targets, 0.25, Permutations(0, "test"), by_class=True)
    assert len(taken) == 25
    assert sorted([*rest, *taken]) == list(range(100))
    assert np.bincount(targets[taken]).tolist() == [1, 2, 22]


def test_the_last_sample_of_a_class_is_trained_on() -> None:
    targets = np.array([0] * 2 + [1])
    rest, _ = divide(np.arange(3), targets, 0.5, Permutations(0, "test"), by_class=True)
    assert set(targets[rest]) == {0, 1}


def test_numbers_are_divided_without_classes() -> None:
    rest, taken = divide(np.arange(10, 60), np.linspace(0, 1, 100), 0.2, Permutations(0, "test"), by_class=False)
    assert (len(rest), len(taken)) == (40, 10)
    assert sorted([*rest, *taken]) == list(range(10, 60))


@given(seed=st.integers(0, 2**32), sizes=st.lists(st.integers(0, 200), min_size=1, max_size=4), count=st.integers(0, 200))
def test_permutations_are_those_of_torch(seed: int, sizes: list[int], count: int) -> None:
    ours, generator = Permutations(seed, "test"), generator_for(seed, "test")
    for size in sizes:
        assert ours.first(count, size) == torch.randperm(size, generator=generator)[:count].tolist()


def test_a_part_that_is_not_there_is_refused() -> None:
    with pytest.raises(InputError, match="no validation part"):
        load_dataset(DataSpec(validation=0)).part("validation")
    with pytest.raises(InputError, match=r"data\.validation = 0\.0001"):
        load_dataset(DataSpec(validation=0.0001))
