"""Recipes: each fits its networks, fills in what is left out, keeps its shape in a shorter budget, and is refused elsewhere."""

from pathlib import Path
from typing import get_args

import pytest

from highwaynet import DataSpec, NetworkSpec, RunSpec, TrainingSpec
from highwaynet.base.errors import InputError
from highwaynet.cli.overrides import gather_spec
from highwaynet.networks.presets import PRESETS
from highwaynet.runs.optimisers import OPTIMISERS, OptimiserName
from highwaynet.runs.recipes import recipes_of
from highwaynet.runs.spec import parse_spec, spec_from_values
from highwaynet.training.schedule import learning_rate

PAIRS = [(network, recipe) for network in PRESETS for recipe in recipes_of(network)]
VARIANT_PAIRS = [(network, "2016", recipe) for network in ("resnet-20", "resnet-44") for recipe in recipes_of(network, "2016")]


def run(network: str, data: str = "cifar-10", **training: object) -> RunSpec:
    return spec_from_values({"network": {"name": network}, "data": {"name": data}, "training": training})


@pytest.mark.parametrize(("network", "recipe"), PAIRS)
class TestEveryRecipe:
    """The contract."""

    def test_it_fills_in_what_is_left_out_and_nothing_else(self, network: str, recipe: str) -> None:
        spec, known = run(network, recipe=recipe), recipes_of(network)[recipe]
        assert spec.training.recipe == recipe
        for field, value in known.training.items():
            assert getattr(spec.training, field) == value, field
        assert spec.data.preprocessing == known.preprocessing
        chosen = run(network, recipe=recipe, learning_rate=0.123, batch_size=7)
        assert (chosen.training.learning_rate, chosen.training.batch_size) == (0.123, 7)
        assert chosen.training.momentum == spec.training.momentum

    def test_it_comes_back_from_toml(self, network: str, recipe: str) -> None:
        spec = run(network, recipe=recipe)
        assert spec_from_values(parse_spec(spec.to_toml(), Path("a run"))) == spec

    def test_a_shorter_budget_keeps_its_shape(self, network: str, recipe: str) -> None:
        whole, short = run(network, recipe=recipe), run(network, recipe=recipe, epochs=30)
        assert short.training.epochs == 30
        steps = {spec.training.epochs: spec.training.epochs * 500 for spec in (whole, short)}
        for share in (0.0, 0.02, 0.2, 0.4, 0.55, 0.7, 0.8, 0.9, 0.99):
            rates = [
                learning_rate(spec.training, int(share * steps[spec.training.epochs]), steps[spec.training.epochs], 500)
                for spec in (whole, short)
            ]
            assert rates[0] == pytest.approx(rates[1], rel=0.01, abs=5e-3 * whole.training.learning_rate)


@pytest.mark.parametrize(("network", "variant", "recipe"), VARIANT_PAIRS)
def test_recipes_of_variants_are_filled_in_too(network: str, variant: str, recipe: str) -> None:
    values = {"network": {"name": network, "variant": variant}, "data": {"name": "cifar-10"}, "training": {"recipe": recipe}}
    spec, known = spec_from_values(values), recipes_of(network, variant)[recipe]
    for field, value in (known.training | known.augmentation).items():
        assert getattr(spec.training, field) == value or (field == "rotate" and spec.training.rotate in (0.0, value)), field


def test_photographs_are_shifted_and_mirrored_and_digits_only_shifted() -> None:
    def augmentation(network: str, data: str) -> tuple[int, bool]:
        training = run(network, data).training
        return training.crop, training.mirror

    assert augmentation("highway-a", "cifar-10") == (4, True)
    assert augmentation("highway-a", "mnist") == (4, False)
    assert augmentation("mnist-highway-16", "mnist") == (0, False)
    assert augmentation("highway-a", "./own") == (0, False)
    released = run("highway-b", recipe="released")
    assert (released.training.crop, released.training.mirror, released.data.preprocessing) == (8, True, ("gcn", "mean-image"))


def test_the_released_recipe_of_mnist() -> None:
    training = run("mnist-highway-16", "mnist", recipe="released").training
    assert training.epochs * 60_000 / training.batch_size == 180_000
    near = [learning_rate(training, step, 180_000) for step in (0, 59_999, 60_000, 119_999, 120_000, 179_999)]
    assert near == pytest.approx([1e-2, 1e-2, 1e-3, 1e-3, 1e-4, 1e-4])
    assert (training.nesterov, training.momentum, training.weight_decay) == (True, 0.9, 1e-3)
    assert (training.bias_rate, training.bias_decay, training.head_decay) == (2.0, 0.0, 10.0)


def test_the_released_recipe_of_cifar() -> None:
    training = run("highway-b", recipe="released").training
    assert training.epochs * 50_000 / training.batch_size == 200_000
    near = [learning_rate(training, step, 200_000) for step in (99_999, 100_000, 149_999, 150_000, 174_999, 175_000)]
    assert near == pytest.approx([25e-3, 25e-4, 25e-4, 25e-5, 25e-5, 25e-6])


def test_a_variant_may_have_recipes_of_its_own() -> None:
    he, other = (
        spec_from_values({"network": {"name": "resnet-20", "variant": v}, "training": {"recipe": "paper"}}) for v in ("paper", "2016")
    )
    assert (he.training.weight_decay, he.training.learning_rate) == (1e-4, 0.1)
    assert (other.training.nesterov, other.training.weight_decay, other.training.learning_rate) == (False, 0.0, 0.025)


def test_without_a_recipe() -> None:
    assert run("highway-a").training.recipe == "quick"
    dense = run("fc-highway", "mnist").training
    assert (dense.recipe, dense.schedule, dense.learning_rate) == (None, "exponential", 0.2)
    assert run("fc-plain", "mnist").training.learning_rate == 0.003
    chosen = RunSpec(network=NetworkSpec(name="highway-a"), data=DataSpec(name="cifar-10"), training=TrainingSpec(epochs=3))
    assert chosen == run("highway-a", epochs=3), "a spec that is given whole counts only what was chosen"


def test_another_schedule_takes_nothing_of_the_recipes_schedule_along() -> None:
    training = run("highway-a", schedule="multi-step", milestones=[0.5]).training
    assert (training.warm_up, training.decay, training.learning_rate) == (0.0, 0.1, 0.08)
    training = run("highway-b", recipe="released", schedule="exponential").training
    assert training.milestones is None
    assert run("highway-a", schedule="one-cycle") == run("highway-a"), "its own schedule named is no change"
    assert run("highway-b", recipe="released", schedule="multi-step") == run("highway-b", recipe="released")


def test_another_optimiser_takes_nothing_of_the_recipes_optimiser_along() -> None:
    adamw = run("highway-a", optimiser="adamw", learning_rate=1e-3).training
    assert (adamw.nesterov, adamw.momentum, adamw.schedule) == (False, 0.9, "one-cycle")
    assert run("highway-a", momentum=0.0).training.nesterov is False
    assert run("fitnet-a", recipe="paper", optimiser="sgd").training.smoothing is None


def test_every_optimiser_has_a_learning_rate_that_its_text_names() -> None:
    assert tuple(OPTIMISERS) == get_args(OptimiserName)
    text = str(TrainingSpec.model_fields["learning_rate"].description)
    for name in OPTIMISERS:
        for network in ("fc-highway", "fc-plain", "fitnet-a"):
            recipe = None if network.startswith("fc") else "paper" if name != "rmsprop" else "quick"
            assert f"{run(network, optimiser=name, recipe=recipe).training.learning_rate:g}" in text


@pytest.mark.parametrize(
    ("network", "recipe", "sentence"),
    [
        ("fc-highway", "released", "training.recipe = 'released': fc-highway does not have this recipe; choose paper"),
        ("fc-highway", "quick", "training.recipe = 'quick': fc-highway does not have this recipe; choose paper"),
        ("nin", "paper", "training.recipe = 'paper': nin does not have this recipe; choose quick"),
        ("resnet-20", "released", "training.recipe = 'released': resnet-20 does not have this recipe; choose paper or quick"),
        ("highway-a", "released", "training.recipe = 'released': highway-a does not have this recipe; choose paper or quick"),
        ("highway-a", "", "unknown recipe ''"),
        ("highway-a", "quik", "unknown recipe 'quik': did you mean 'quick'?"),
    ],
)
def test_a_recipe_that_does_not_fit_is_refused(network: str, recipe: str, sentence: str) -> None:
    with pytest.raises(InputError) as error:
        run(network, recipe=recipe)
    assert sentence in str(error.value)


def test_a_setting_of_a_recipe_can_be_switched_off_and_stays_off(tmp_path: Path) -> None:
    assert run("fitnet-a").training.clip_norm == 1.0
    spec = run("fitnet-a", clip_norm=None)
    assert spec.training.clip_norm is None
    path = tmp_path / "spec.toml"
    path.write_text(spec.to_toml())
    assert spec_from_values(parse_spec(spec.to_toml(), path)) == gather_spec(path, {}, []) == spec
    assert RunSpec.model_validate(spec.model_dump()) == spec
    # A file of the user's own is not complete: the recipe fills it in.
    assert spec_from_values(parse_spec('[network]\nname = "fitnet-a"\n[data]\nname = "cifar-10"\n', path)).training.clip_norm == 1.0
    # Another recipe brings its own settings; other changes do not bring back what is off.
    other = gather_spec(path, {"training.recipe": "released", "network.variant": "released"}, []).training
    assert (other.max_kernel_norm, other.patience, other.clip_norm) == (0.9, 100, None)
    longer = gather_spec(path, {"training.epochs": "3"}, []).training
    assert (longer.epochs, longer.clip_norm) == (3, None)


def test_the_fitnets_recipe_has_the_numbers_of_their_files() -> None:
    network = {"name": "fitnet-a", "variant": "released"}
    values = {"network": network, "data": {"name": "cifar-10", "validation": 0.2}, "training": {"recipe": "released"}}
    spec = spec_from_values(values | {"teacher": {"run": "wise", "hints": "6:2"}})
    training, teacher = spec.training, spec.teacher
    assert (training.optimiser, training.smoothing, training.learning_rate, training.conv_rate) == ("rmsprop", 0.9, 0.005, 0.05)
    assert (training.max_kernel_norm, training.max_unit_norm, training.batch_size) == (0.9, 1.9, 128)
    assert (training.epochs, training.patience, training.crop, training.mirror) == (500, 100, 8, True)
    assert spec.data.preprocessing == ("gcn", "zca")
    assert (spec.network.init, spec.network.init_range) == ("uniform", 0.005)
    assert teacher is not None
    assert (teacher.form, teacher.temperature, teacher.weight, teacher.final_weight) == ("fitnets", 3.0, 4.0, 1.0)
    assert [500 * share for share in teacher.span(500)] == [5, 400]
    assert teacher.regressor_range == 0.05
    own = spec_from_values(values | {"teacher": {"run": "wise", "weight": 2.0}})
    assert own.teacher is not None
    assert (own.teacher.weight, own.teacher.final_weight) == (2.0, 1.0), "what is set stays"
    assert spec_from_values(values).teacher is None
    assert spec_from_values(spec.model_dump(exclude_none=True)) == spec
