"""Netting of manifest entries: an ADD and the DELETE of the same file identity cancel.

`DeletedEntries` is for all manifests of a snapshot together: there, in any order of the manifests, an ADD is live
unless some DELETE names its file. `merge_entries` is for a part of them, whose entries are in the order of the commits:
a DELETE may cancel an ADD outside of that part, so it is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from paimon_spark.spec.kinds import FileKind
from paimon_spark.spec.manifest import FileIdentity, ManifestEntry


class DeletedEntries:
    """The files that the DELETE entries of all manifests of a snapshot name.

    Args:
        entries: entries of the manifests; ADDs among them are ignored.
    """

    def __init__(self, entries: Iterable[ManifestEntry] = ()) -> None:
        self.identities: set[FileIdentity] = {e.identity for e in entries if e.kind is FileKind.DELETE}

    def live(self, entries: Iterable[ManifestEntry]) -> Iterator[ManifestEntry]:
        """Yield the ADD entries that no DELETE cancels, in order."""
        gone = self.identities
        for entry in entries:
            if entry.kind is FileKind.ADD and not (gone and entry.identity in gone):
                yield entry


def merge_entries(entries: Iterable[ManifestEntry]) -> list[ManifestEntry]:
    """Return entries without the pairs that cancel; a DELETE whose ADD is not among them stays."""
    live: dict[FileIdentity, ManifestEntry] = {}
    for entry in entries:
        if entry.kind is FileKind.ADD or entry.identity not in live:
            live[entry.identity] = entry
        elif live[entry.identity].kind is FileKind.ADD:
            del live[entry.identity]
    return list(live.values())
