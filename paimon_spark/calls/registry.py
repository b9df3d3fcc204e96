"""Registry of procedures, loaded from the entry point group ``paimon_spark.procedures``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from importlib.metadata import EntryPoint, entry_points

from paimon_spark.calls.procedure import NAMESPACE, Procedure, declared_in
from paimon_spark.calls.refusals import REFUSED, refused
from paimon_spark.errors import EngineError, ErrorKind, NotFoundError, did_you_mean

GROUP = "paimon_spark.procedures"


class Registry:
    """Procedures by name, in any letter case."""

    def __init__(self, procedures: Iterable[Procedure]) -> None:
        """Collect `procedures`.

        Raises:
            EngineError: two procedures have the same name.
        """
        self._by_name: dict[str, Procedure] = {}
        for procedure in procedures:
            key = procedure.name.lower()
            if key in self._by_name:
                raise EngineError(
                    f"Two procedures are called '{procedure.name}'.",
                    hint=f"Uninstall one of the packages that register it in the entry point group {GROUP}.",
                )
            self._by_name[key] = procedure

    @classmethod
    def of_modules(cls, modules: Iterable[object]) -> Registry:
        """Collect the procedures declared in `modules`."""
        return cls(p for module in modules for p in declared_in(module))

    def __iter__(self) -> Iterator[Procedure]:
        return iter(sorted(self._by_name.values(), key=lambda p: p.name.lower()))

    @property
    def names(self) -> frozenset[str]:
        """Return the names in lower case."""
        return frozenset(self._by_name)

    @property
    def claimed(self) -> frozenset[str]:
        """Return the names in lower case, and those of the refused procedures."""
        return self.names | REFUSED.keys()

    def get(self, name: str) -> Procedure:
        """Return the procedure called `name`.

        Raises:
            UnsupportedError: it is a procedure of Paimon that is refused.
            NotFoundError: there is no such procedure.
        """
        found = self._by_name.get(name.lower())
        if found is None:
            raise refused(name, NAMESPACE) or NotFoundError(
                f"There is no procedure '{NAMESPACE}.{name}'.",
                hint=f"{did_you_mean(name, self._by_name)} CALL {NAMESPACE}.help() lists all.".strip(),
                kind=ErrorKind.PROCEDURE_NOT_FOUND,
            )
        return found


@cache
def installed_family(name: str) -> Registry:
    """Return the procedures of one entry point, which loads faster than all of them.

    Raises:
        EngineError: the module does not import.
    """
    return Registry.of_modules([_loaded(point) for point in entry_points(group=GROUP, name=name)])


@cache
def installed_registry() -> Registry:
    """Return the procedures of every installed package; loaded once per process.

    Raises:
        EngineError: a package's module does not import, or two procedures have the same name.
    """
    return Registry.of_modules(map(_loaded, sorted(entry_points(group=GROUP), key=lambda p: p.name)))


def _loaded(point: EntryPoint) -> object:
    try:
        return point.load()
    except ImportError as e:
        raise EngineError(
            f"The procedures '{point.name}' ({point.value}) cannot be loaded: {e}.",
            hint="Install the missing dependency, or uninstall the package that registers them.",
        ) from e
