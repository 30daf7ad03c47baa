"""Members: several networks in one, from the estimator to the file that other programs read."""

from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.datasets import make_classification, make_regression

from highwaynet import HighwayClassifier, HighwayRegressor, export, load

MEMBERS = {"network": {"members": 3, "width": 12}}


@pytest.mark.parametrize("rows", [60, 160], ids=["small set", "usual set"])
@pytest.mark.parametrize("weighted", [False, True], ids=["all alike", "weighted"])
def test_a_classifier_with_members_is_one_network(rows: int, weighted: bool, tmp_path: Path) -> None:
    x, y = make_classification(rows, 6, n_informative=4, random_state=0)
    weights = np.linspace(0.5, 1.5, rows) if weighted else None
    model = HighwayClassifier(random_state=0, settings=MEMBERS).fit(x, y, sample_weight=weights)
    assert model.score(x, y) > 0.8
    run = model.save(tmp_path / "run")
    network = load(run.path).network
    assert network.plan.members == 3
    inputs = torch.randn(4, *network.plan.input_shape, dtype=next(network.parameters()).dtype)
    torch.testing.assert_close(network.by_member(inputs).mean(1), network(inputs))
    assert not torch.allclose(network.by_member(inputs)[:, 0], network.by_member(inputs)[:, 1]), "members differ"
    study = model.inspect(x, y, weights)
    layers = network.plan.closable
    assert len(study.lesions().closed) == layers
    assert 0 < float(np.mean(study.gates().mean)) < 1
    assert export(run.path, tmp_path / "file.onnx").difference < 1e-4


def test_members_learn_several_numbers() -> None:
    x, y = make_regression(200, 5, n_targets=2, noise=1.0, random_state=0)
    model = HighwayRegressor(random_state=0, settings=MEMBERS).fit(x, y)
    assert model.predict(x).shape == (200, 2)
    assert model.score(x, y) > 0.9
    assert np.array_equal(model.predict(x), HighwayRegressor(random_state=0, settings=MEMBERS).fit(x, y).predict(x))
