"""A run without its weights: the files that describe it, and its records, in memory."""

from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel

from highwaynet.base.errors import InputError
from highwaynet.base.files import decoded, read_bytes
from highwaynet.runs.directory import ANALYSIS, RunDirectory
from highwaynet.runs.history import HISTORY, complete_lines, parse_history
from highwaynet.runs.record_files import RecordT, pack_record, records_in, unpack_record
from highwaynet.runs.run_records import EpochRecord
from highwaynet.runs.spec import SPEC, RunSpec, parse_spec, spec_from_values


class KeptRun:
    """The files of a run without its weights.

    Args:
        place: Its place, for error messages.
        files: The content of its files, by their names in a run directory.
    """

    def __init__(self, place: Path, files: Mapping[str, bytes]) -> None:
        self.place, self.files = place, files

    @classmethod
    def of(cls, run: RunDirectory, records: Mapping[str, BaseModel]) -> "KeptRun":
        """Collect the files of a run without weights, and these records, by name.

        Records in the run directory are not used: if the run is read-only, they may be out of date or missing.
        """
        files = {name: read_bytes(run.path / name) for name in run.light_files()}
        for name, record in records.items():
            files |= {f"{ANALYSIS}/{file}": content for file, content in pack_record(name, record).items()}
        return cls(run.path, files)

    @classmethod
    def in_folder(cls, folder: Path) -> "KeptRun":
        """Read the files from a folder with the layout of a run directory."""
        names = RunDirectory(folder).light_files()
        names += [f"{ANALYSIS}/{path.name}" for path in records_in(folder / ANALYSIS) if path.is_file()]
        return cls(folder, {name: read_bytes(folder / name) for name in names})

    def read_spec(self) -> RunSpec:
        """Read the settings of the run; raises InputError if they are missing or damaged."""
        path = self.place / SPEC
        if SPEC not in self.files:
            raise InputError(f"{self.place} has no {SPEC}: run `highway reproduce` again")
        return spec_from_values(parse_spec(decoded(self.files[SPEC], path), path), path)

    def read_history(self) -> list[EpochRecord]:
        """Read the epochs, in order; empty if the run diverged in the first one."""
        path = self.place / HISTORY
        return parse_history(complete_lines(decoded(self.files.get(HISTORY, b""), path)), path)

    def load_record(self, name: str, kind: type[RecordT]) -> RecordT | None:
        """Load the record of an analysis; None if it is missing, damaged or of another version."""
        return unpack_record(name, kind, lambda file: self.files[f"{ANALYSIS}/{file}"])
