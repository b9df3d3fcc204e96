"""The views of one database: `<database>.db/.views/<view>.json`. Paimon's catalogs do not list that directory."""

from __future__ import annotations

from dataclasses import dataclass

from paimon_spark.core.metadata_io import create_once, read_if_there, translate_io_errors
from paimon_spark.fs.base import FileIO
from paimon_spark.spec.view import View, parse_view

VIEWS_DIR = ".views"
_SUFFIX = ".json"


@dataclass(frozen=True, slots=True)
class ViewStore:
    """Reads and writes views by name; each write is one atomic write of a file."""

    file_io: FileIO
    database_path: str

    def path(self, name: str) -> str:
        """Return the file of a view."""
        return f"{self.database_path}/{VIEWS_DIR}/{name}{_SUFFIX}"

    @translate_io_errors()
    def names(self) -> list[str]:
        """Return the names of all views, sorted."""
        files = (s.name for s in self.file_io.list(f"{self.database_path}/{VIEWS_DIR}") if not s.is_dir)
        return sorted(n.removesuffix(_SUFFIX) for n in files if n.endswith(_SUFFIX) and not n.startswith("."))

    @translate_io_errors()
    def exists(self, name: str) -> bool:
        """Return whether the view exists."""
        return self.file_io.exists(self.path(name))

    @translate_io_errors()
    def get(self, name: str) -> View | None:
        """Return a view, or None if it does not exist."""
        data = read_if_there(self.file_io, self.path(name))
        return None if data is None else parse_view(data, self.path(name))

    @translate_io_errors()
    def try_create(self, name: str, view: View) -> bool:
        """Create a view; return False if it exists. Of concurrent creators, one succeeds."""
        return create_once(self.file_io, self.path(name), view.to_json().encode())

    @translate_io_errors()
    def replace(self, name: str, view: View) -> None:
        """Create a view or replace it."""
        self.file_io.write(self.path(name), view.to_json().encode())

    @translate_io_errors()
    def drop(self, name: str) -> bool:
        """Delete a view; return False if it does not exist."""
        return self.file_io.delete(self.path(name))

    @translate_io_errors()
    def drop_all(self) -> None:
        """Delete all views."""
        self.file_io.delete_dir(f"{self.database_path}/{VIEWS_DIR}")
