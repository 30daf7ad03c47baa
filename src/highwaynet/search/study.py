"""Finding a study by its file, folder or name, and checking that the stored study is the same."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from highwaynet.base.errors import InputError, unknown
from highwaynet.base.files import cannot, write_atomically
from highwaynet.runs.spec import SPEC
from highwaynet.search.address import DATABASE, Address
from highwaynet.search.configurations import anchored, check_runs, configurations
from highwaynet.search.creation import FORMAT, study_name
from highwaynet.search.spec import StudySpec, is_name, parse_study, read_study
from highwaynet.search.storage import EmptyError, database_of, open_storage, reading

if TYPE_CHECKING:
    from optuna.storages import RDBStorage

STUDY = "study.toml"
"""The spec in a study's folder."""


@dataclass(frozen=True)
class Place:
    """Name, storage and folder of a study."""

    name: str
    storage: Address
    folder: Path
    spec: StudySpec | None
    """The spec from the study's file; None if there is no file."""
    source: str
    """What the user typed."""


def locate(study: str, storage: str | None, out: Path | None) -> Place:
    """Find a study from what the user typed: its file, its folder, or its name with a storage."""
    path, spec = Path(study), None
    if path.name == DATABASE or (path.name == STUDY and (path.parent / DATABASE).is_file()):
        path = path.parent
    if path.is_file():
        spec = anchored(read_study(path))
        name, folder = spec.name, out or Path("studies") / spec.name
    elif path.is_dir() and ((path / DATABASE).is_file() or (path / STUDY).is_file()):
        spec = read_study(path / STUDY) if (path / STUDY).is_file() else None
        name, folder = spec.name if spec else _only_name(path), out or path
    elif path.is_dir() and not (Path("studies") / study).is_dir():
        raise InputError(f"{study}: there is no study in this folder; give a study's file, its folder, or its name")
    elif is_name(study) and not study.endswith(".toml"):
        name, folder = study, out or Path("studies") / study
    else:
        raise InputError(f"{study}: no such study; give its file, its folder, or its name")
    return Place(name, Address.parse(storage) if storage else database_of(folder), folder, spec, study)


def _only_name(folder: Path) -> str:
    """Return the name of the only study in a folder's storage; the name of the folder if there are several."""
    address = database_of(folder)
    with reading(address):
        storage = open_storage(address, read_only=True)
    try:
        with reading(address):
            names = _names(storage)
    finally:
        storage.engine.dispose()
    return names[0] if len(names) == 1 else folder.resolve().name


def _names(storage: "RDBStorage") -> list[str]:
    return sorted({study.study_name.partition("/")[0] for study in storage.get_all_studies()})


def stored_spec(place: Place, storage: "RDBStorage") -> StudySpec:
    """Return the spec that a storage has for a study; raises InputError if it has no such study, or one of another version."""
    kept = _kept(place, storage)
    if not kept:
        if not (names := _names(storage)):
            raise EmptyError(f"{place.storage.shown}: there is no study in it")
        raise InputError(f"{place.storage.shown}: {unknown('study', place.name, names)}")
    return parse_study(str(next(iter(kept.values()))["spec"]), Path(f"study {place.name}"))


def open_stored(place: Place) -> tuple[StudySpec, "RDBStorage"]:
    """Open an existing study for reading; return its spec and storage."""
    if (file := place.storage.file) and not file.is_file():
        raise InputError(f"{place.source}: there is no study here ({file}); start it with highway search STUDY.toml, or give its --storage")
    with reading(place.storage):
        storage = open_storage(place.storage, read_only=True)
    try:
        with reading(place.storage):
            return stored_spec(place, storage), storage
    except BaseException:
        storage.engine.dispose()
        raise


def prepare(place: Place, *, join: bool) -> tuple[StudySpec, dict[str, Any]]:
    """Check everything that can be checked before anything is written. Returns the spec and the attributes that the storage keeps.

    Args:
        place: The study.
        join: Whether the study must already exist.
    """
    runs_before = any((place.folder / "runs").glob("*/*"))  # checked first, because another parent may be creating the study
    file = place.storage.file
    if file and not file.exists() and (join or place.spec is None):
        raise InputError(f"{place.source}: there is no study to join ({file}); give its --storage, or start it without --join")
    spec, there = place.spec, dict[str, dict[str, Any]]()
    fingerprints = _fingerprints(spec, place.source) if spec else {}
    if file is None or file.exists():
        spec, there = _stored(place, spec, join=join)
        fingerprints = fingerprints or _fingerprints(spec, place.source)
    if spec is None:
        raise InputError(f"{place.name}: no such study; give its file")
    attributes = {"format": FORMAT, "spec": spec.to_toml(), "spec_sha256": spec.checksum, "data": fingerprints}
    if there:
        with reading(place.storage):
            _check_same(place, spec, attributes, there)
    _check_folder(place.folder, spec)
    if runs_before and not there:
        raise InputError(f"{place.folder} has runs of a study that is not in {place.storage.shown}: name another folder with --out")
    _make_folder(place, spec)
    if any(kept["spec_sha256"] != spec.checksum for kept in there.values()):
        _grow(place, attributes)
    return spec, attributes


def _stored(place: Place, spec: StudySpec | None, *, join: bool) -> tuple[StudySpec, dict[str, dict[str, Any]]]:
    """Return the spec, from the storage if there is no file, and the attributes that the storage keeps."""
    try:
        with reading(place.storage):
            storage = open_storage(place.storage, read_only=True)
    except EmptyError:
        if spec is None or join:
            raise
        return spec, {}
    try:
        with reading(place.storage):
            there = _kept(place, storage)
            for study in storage.get_all_studies():
                storage.get_all_trials(study._study_id)  # damage is found before workers start
        return stored_spec(place, storage) if spec is None or (join and not there) else spec, there
    finally:
        storage.engine.dispose()


def _is_larger(spec: StudySpec, other: StudySpec) -> bool:
    """Whether `spec` is `other` with more trials; trials that are done stay valid."""
    more = spec.trials > other.trials and spec.sampler != "given"
    return more and other.model_copy(update={"trials": spec.trials}).checksum == spec.checksum


def _grow(place: Place, attributes: dict[str, Any]) -> None:
    """Store the spec of a study that now has more trials."""
    storage = open_storage(place.storage)
    try:
        for study in storage.get_all_studies():
            if study.study_name.startswith(f"{place.name}/"):
                for key in ("spec", "spec_sha256"):
                    storage.set_study_user_attr(study._study_id, key, attributes[key])
    finally:
        storage.engine.dispose()


def _kept(place: Place, storage: "RDBStorage") -> dict[str, dict[str, Any]]:
    """Return the attributes that the storage keeps, by configuration; raises InputError if they are of another version."""
    kept = {s.study_name: s.user_attrs for s in storage.get_all_studies() if s.study_name.startswith(f"{place.name}/")}
    for name, attributes in kept.items():
        if attributes.get("format") != FORMAT:
            raise InputError(
                f"{place.storage.shown}: the study {name} was made by another version of highwaynet (format {attributes.get('format')}, "
                f"here {FORMAT}): use that version, or choose another name"
            )
    return kept


def _check_same(place: Place, spec: StudySpec, attributes: dict[str, Any], there: dict[str, dict[str, Any]]) -> None:
    """Raise InputError if the stored study has another spec or other data."""
    known = {study_name(spec, configuration) for configuration in configurations(spec)}
    for name, kept in there.items():
        other = parse_study(str(kept["spec"]), Path(f"study {place.name}"))
        if (kept["spec_sha256"] != attributes["spec_sha256"] and not _is_larger(spec, other)) or name not in known:
            raise InputError(
                f"the study {place.name} in {place.storage.shown} was made with {_difference(other, spec)}: "
                "choose another name for the changed study"
            )
        if kept["data"] != attributes["data"]:
            raise InputError(
                f"the study {place.name} in {place.storage.shown} was made with other data, and {', '.join(attributes['data'])} "
                "has changed: use the same data, or choose another name"
            )


def _difference(there: StudySpec, here: StudySpec) -> str:
    """Describe the first field in which two specs differ."""
    before, now = there.model_dump(exclude_none=True), here.model_dump(exclude_none=True)
    for field in StudySpec.model_fields:
        if before.get(field) != now.get(field):
            if isinstance(before.get(field), dict) and isinstance(now.get(field), dict):
                inner = next(key for key in [*before[field], *now[field]] if before[field].get(key) != now[field].get(key))
                return f"another [{field}] {inner} ({_short(before[field].get(inner))}, now {_short(now[field].get(inner))})"
            return f"another {field} ({_short(before.get(field))}, now {_short(now.get(field))})"
    return "another order of its fields"


def _short(value: Any) -> str:
    text = "none" if value is None else json.dumps(value, default=list)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _fingerprints(spec: StudySpec, source: str) -> dict[str, str]:
    """Return fingerprints of the data by name; raises InputError, which names `source`, if the ends of the space do not fit the data."""
    try:
        return _checked_data(spec)
    except InputError as error:
        raise InputError(f"{source}: {error}") from error


def _checked_data(spec: StudySpec) -> dict[str, str]:
    from highwaynet.training.suitability import SpecChecks

    fits = SpecChecks()
    for configuration, runs in check_runs(spec):
        for run in runs:
            data = fits.data(run)
            try:
                fits.check(run)
            except InputError as error:
                raise InputError(f"configuration {configuration.label}: {error}") from error
            if spec.objective != "train-loss" and data.validation is None:
                raise InputError(f"objective = {spec.objective!r}: {run.data.title} has no validation samples; set data.validation")
            if spec.objective == "validation-accuracy" and data.preparation.record.task != "classification":
                raise InputError(f"objective = {spec.objective!r}: {run.data.title} has no classes; choose validation-loss")
    return {data.name.rpartition("/")[2]: data.preparation.record.fingerprint for data in fits.loaded.values()}


def _check_folder(folder: Path, spec: StudySpec) -> None:
    """Raise InputError if the folder cannot be used for this study."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"--out {folder}: this is a file; name a folder for the study")
    if (folder / SPEC).exists():
        raise InputError(f"--out {folder}: this is a run directory; name another folder for the study")
    other = read_study(folder / STUDY) if (folder / STUDY).exists() else spec
    if other.checksum != spec.checksum and not _is_larger(spec, other):
        raise InputError(f"{folder} belongs to the study {other.name}, with {_difference(other, spec)}: name another folder with --out")


def _make_folder(place: Place, spec: StudySpec) -> None:
    try:
        (place.folder / "runs").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot("create", place.folder, error) from error
    if not (place.folder / STUDY).exists() or read_study(place.folder / STUDY).checksum != spec.checksum:  # the file has fewer trials
        write_atomically(place.folder / STUDY, spec.to_toml())
