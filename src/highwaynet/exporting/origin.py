"""What is exported, and what its file says about it."""

from dataclasses import dataclass
from typing import Any

from highwaynet.data.record import DataRecord
from highwaynet.data.tables import TableEncoder
from highwaynet.exporting.names import Target
from highwaynet.runs.model import TrainedModel


@dataclass(frozen=True)
class Export:
    """A trained model with its origin."""

    model: TrainedModel
    fingerprint: str
    """Checksum of the run: its settings, plan, preparation and weights."""
    checkpoint: str
    """Which weights of the run they are."""
    to: Target
    """What it is exported to."""

    @property
    def facts(self) -> dict[str, Any]:
        """What the file says about itself, as values for JSON."""
        from highwaynet import __version__

        data = self.model.data
        facts: dict[str, Any] = {
            "highwaynet": __version__,
            "run": self.model.run.resolve().name,
            "network": self.model.network.plan.name,
            "checkpoint": self.checkpoint,
            "fingerprint": self.fingerprint,
            "task": data.task,
            "target": data.target_name,
            **({"targets": data.several_targets} if data.several_targets else {}),
            "data": data.found,
        }
        if data.class_names:
            facts["classes"] = self.model.classes.tolist()
        return facts if self.to == "safetensors" else facts | {"inputs": self.inputs, "outputs": self.outputs}

    @property
    def outputs(self) -> dict[str, str]:
        """Describe the outputs of the file, a phrase for each."""
        data = self.model.data
        if data.task == "regression":
            several = data.several_targets
            shape = f"(batch, {len(several)}): {', '.join(several)}" if several else f"(batch): {data.target_name}"
            return {"prediction": f"float64 {shape}"}
        answer = (
            {"label": f"(batch): {data.target_name}"} if self.to == "onnx" else {"number": "int64 (batch): which of the classes, from 0"}
        )
        return answer | {"probabilities": f"float32 (batch, {data.outputs}), in the order of the classes"}

    @property
    def inputs(self) -> dict[str, str]:
        """Describe the inputs of the file, a phrase for each; those of a table by the names of its columns."""
        data = self.model.data
        shape = ", ".join(map(str, data.input_shape))
        if data.kind == "images":
            return {"pixels": f"{pixel_type(data)} (batch, {shape}), from 0 to {data.full_scale:g}"}
        if data.kind == "features":
            return {"features": f"{feature_type(data)} (batch, {shape})"}
        return {rule.name: self._column(rule) for rule in TableEncoder.from_json(data.encoder or {}).rules}

    def _column(self, rule: Any) -> str:
        if rule.kind == "category" and self.to == "torch":
            return "category, int64 (batch): its place in `categories`; −1 is a gap, −2 an unknown category"
        if rule.kind == "date" and rule.form == "time":
            return "time of day, float64 (batch): as a fraction of a day; NaN is a gap"
        if rule.kind == "number" and rule.written is not None:
            return f"number, float64 (batch), a plain one: {rule.written.words}; NaN is a gap"
        phrases = {
            "number": "number, float64 (batch); NaN is a gap",
            "date": "date, float64 (batch): days since 1970-01-01, in UTC; NaN is a gap",
            "category": "category, string (batch) without white space around it; an empty text is a gap",
        }
        return phrases.get(rule.kind, str(rule.kind))

    @property
    def sentence(self) -> str:
        """The file in one sentence."""
        data = self.model.data
        several = data.several_targets
        answer = "classes" if data.task == "classification" else f"{len(several)} numbers" if several else "a number"
        what = ", ".join(several) or data.target_name
        return f"{self.model.network.plan.name} of the run {self.model.run.resolve().name}, predicts {answer} ({what})"


def feature_type(data: DataRecord) -> str:
    """Return the type of arrays of features that exported files take: float64 if the training data had more digits than float32."""
    return "float64" if data.exact else "float32"


def pixel_type(data: DataRecord) -> str:
    """Return the type of the pixels that exported files take: as the training images were stored."""
    return data.pixels or ("uint8" if data.full_scale == 255 else "float32")  # runs of earlier versions do not say
