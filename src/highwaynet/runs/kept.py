"""What is kept of a run without its weights: the files that tell about it, and its records, in memory."""

from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel

from highwaynet.base.errors import InputError
from highwaynet.base.files import decoded, read_bytes
from highwaynet.runs.directory import ANALYSIS, HISTORY, RunDirectory, complete_lines, parse_history
from highwaynet.runs.record_files import RecordT, pack_record, records_in, unpack_record
from highwaynet.runs.run_records import EpochRecord
from highwaynet.runs.spec import SPEC, RunSpec, parse_toml, spec_from_values


class KeptRun:
    """What is kept of a run.

    Args:
        place: Where it is kept, for error messages.
        files: The content of its files, by their names in a run directory.
    """

    def __init__(self, place: Path, files: Mapping[str, bytes]) -> None:
        self.place, self.files = place, files

    @classmethod
    def of(cls, run: RunDirectory, records: Mapping[str, BaseModel]) -> "KeptRun":
        """What shall be kept of a run: its files without weights, and these records, by name.

        Records in the run directory are not taken: where the run can only be read, they may be out of date, or missing.
        """
        files = {name: read_bytes(run.path / name) for name in run.light_files()}
        for name, record in records.items():
            files |= {f"{ANALYSIS}/{file}": content for file, content in pack_record(name, record).items()}
        return cls(run.path, files)

    @classmethod
    def in_folder(cls, folder: Path) -> "KeptRun":
        """What is kept in a folder of its own, laid out as a run directory."""
        names = RunDirectory(folder).light_files()
        names += [f"{ANALYSIS}/{path.name}" for path in records_in(folder / ANALYSIS) if path.is_file()]
        return cls(folder, {name: read_bytes(folder / name) for name in names})

    def read_spec(self) -> RunSpec:
        """What was run; raises InputError if it is missing or damaged."""
        path = self.place / SPEC
        if SPEC not in self.files:
            raise InputError(f"{self.place} has no {SPEC}: run `highway reproduce` again")
        return spec_from_values(parse_toml(decoded(self.files[SPEC], path), path), path)

    def read_history(self) -> list[EpochRecord]:
        """The epochs, in order; none if the run diverged in the first one."""
        path = self.place / HISTORY
        return parse_history(complete_lines(decoded(self.files.get(HISTORY, b""), path)), path)

    def load_record(self, name: str, kind: type[RecordT]) -> RecordT | None:
        """The record of an analysis, or None if it is missing, damaged or of another version."""
        return unpack_record(name, kind, lambda file: self.files[f"{ANALYSIS}/{file}"])
