"""Creation, replacement, renaming, deletion and expiry of tags.

Deleting the tag of an existing snapshot removes one small file. If the snapshot has expired and no other tag references
it, its unreferenced data and metadata files are deleted too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from paimon_spark.core.cancellation import uninterrupted
from paimon_spark.core.maintenance.deletion import DELETE, WARN, WRITE, Action, Deleted, DeletionPlan, SafeDeleter
from paimon_spark.core.maintenance.expiry_candidates import ExpiryCandidates
from paimon_spark.core.maintenance.trash import TrashRun
from paimon_spark.core.metadata.manifest_store import ManifestStore
from paimon_spark.core.metadata.refs import RefKey, RefKind, RefStore, check_tag_name, tag_files
from paimon_spark.core.metadata_io import delete_best_effort, read_if_there, translate_io_errors
from paimon_spark.core.table import Table
from paimon_spark.engine.success_files import write_success_file
from paimon_spark.errors import AlreadyExistsError, ArgumentError, ErrorKind, NotFoundError, PaimonError, did_you_mean
from paimon_spark.spec.bounds import LEAST_MILLIS, MOST_MILLIS
from paimon_spark.spec.identifier import is_one_name
from paimon_spark.spec.refs import Tag
from paimon_spark.spec.snapshot import Snapshot
from paimon_spark.spec.tag_periods import tag_time
from paimon_spark.spec.time_texts import clock_text

_PERIODIC = ("process-time", "watermark")
_LONGEST = timedelta(days=timedelta.max.days)
"""The longest time that a tag can be kept."""


@dataclass(frozen=True, slots=True)
class TagPlan:
    """A tag to write: `tag` is None if it exists and may be kept. `rename_from` is the old name in a rename.

    `success_millis` is the time in the success file to write, if any.
    """

    name: str
    tag: Tag | None
    actions: tuple[Action, ...] = ()
    replace: bool = False
    rename_from: str | None = None
    success_millis: int | None = None


@dataclass(frozen=True, slots=True)
class DeleteTagsPlan:
    """Tags to delete, and files deleted with them; `missing` names do not exist; `hints` are suggestions for them."""

    names: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    warnings: tuple[Action, ...] = ()
    files: DeletionPlan = field(default_factory=DeletionPlan)
    hints: tuple[str, ...] = ()

    @property
    def actions(self) -> list[Action]:
        """Return all actions, warnings about missing tags first."""
        return [*self.warnings, *self.files.references, *self.files.data, *self.files.metadata, *self.files.kept]


@dataclass(frozen=True, slots=True)
class DeleteTagsResult:
    """The deleted tags, the missing ones, and the deleted files (tag files included)."""

    names: tuple[str, ...]
    missing: tuple[str, ...]
    files: int = 0
    bytes: int = 0


@translate_io_errors()
def plan_create_tag(
    table: Table,
    name: str,
    *,
    clock_millis: int,
    snapshot_id: int | None = None,
    time_retained_ms: int | None = None,
    if_not_exists: bool = False,
    replace: bool = False,
    anew: bool = False,
) -> TagPlan:
    """Plan a tag of a snapshot, by default of the latest; nothing is changed.

    Args:
        table: the table.
        name: name of the tag; surrounding blanks are stripped.
        clock_millis: current time; stored if the tag has a retention.
        snapshot_id: the snapshot to tag. An expired snapshot is allowed if another tag still has it.
        time_retained_ms: retention of the tag; by default the option `tag.default-time-retained`.
        if_not_exists: keep an existing tag of that name.
        replace: overwrite the tag, which must exist. Its success file stays as it is.
        anew: overwrite the tag as if it were deleted and created again, with a new success file.

    Raises:
        ArgumentError: the name or the retention is invalid, or tags hold different snapshots of the id.
        AlreadyExistsError: the tag exists, or it would be the second one of a snapshot that is named like an automatic
            tag.
        NotFoundError: there is no such snapshot, or no tag to replace.
        CorruptTableError: the snapshot's manifests cannot be read, so the tag would protect nothing.
    """
    name = _free_name(table, name)
    refs = RefStore.of(table)
    present = refs.find_tag(name)
    if replace and present is None:
        raise refs.no_such_tag(name)
    if present is not None and not replace:
        if if_not_exists:
            return TagPlan(name, None)
        raise refs.tag_exists(name)
    snapshot = _snapshot(table, refs, snapshot_id)
    ManifestStore(table).data_manifests(snapshot)
    _check_period(table, name, snapshot)
    tag = _new_tag(table, snapshot, time_retained_ms, clock_millis)
    verb = "points" if present is None else "points from now on"
    paths = tag_files(table, name) if anew or not replace else (table.paths.tag(name),)
    return _tag_plan(name, tag, paths, verb, clock_millis, replace=replace)


def plan_pin(table: Table, name: str, snapshot: Snapshot, *, clock_millis: int) -> TagPlan:
    """Plan a tag that protects a readable snapshot until the tag is deleted; no tag of that name may exist."""
    return _tag_plan(name, Tag(snapshot), tag_files(table, name), "points", clock_millis)


def _tag_plan(
    name: str, tag: Tag, paths: Sequence[str], verb: str, clock_millis: int, *, replace: bool = False
) -> TagPlan:
    """Return the plan that writes the files of a tag: its own, and its success file if it has one."""
    path, *success = paths
    action = Action(WRITE, path, len(tag.to_json().encode()), f"tag '{name}' {verb} to snapshot {tag.snapshot.id}")
    told = [Action(WRITE, p, 0, f"tag '{name}' is complete") for p in success]
    return TagPlan(name, tag, (action, *told), replace=replace, success_millis=clock_millis if told else None)


@translate_io_errors()
def plan_rename_tag(table: Table, name: str, new_name: str) -> TagPlan:
    """Plan renaming a tag; nothing is changed.

    An interrupted rename leaves the same tag under both names; the next one completes it.

    Raises:
        ArgumentError: the new name is invalid.
        NotFoundError: the tag does not exist.
        AlreadyExistsError: another tag of the new name exists, or the names are the same.
    """
    refs, new_name = RefStore.of(table), _free_name(table, new_name)
    tag = refs.get_tag(name)
    data = tag.to_json().encode()
    present = read_if_there(table.file_io, table.paths.tag(new_name))
    if name == new_name or present not in (None, data):
        raise refs.tag_exists(new_name)
    write = Action(WRITE, table.paths.tag(new_name), len(data), f"new name of tag '{name}'")
    delete = Action(DELETE, table.paths.tag(name), len(data), f"it is called '{new_name}' now")
    moved = _moved_success(table, name, new_name)
    return TagPlan(new_name, tag, (*((write,) if present is None else ()), *moved, delete), rename_from=name)


def _moved_success(table: Table, name: str, new_name: str) -> tuple[Action, ...]:
    """Return the changes that rename the success file of a tag, if it has one."""
    old, new = table.paths.tag_success(name), table.paths.tag_success(new_name)
    data = read_if_there(table.file_io, old) if table.options.creates_tag_success_files else None
    if data is None:
        return ()
    write = Action(WRITE, new, len(data), f"tag '{new_name}' is complete")
    return write, Action(DELETE, old, len(data), "the tag has a new name")


@translate_io_errors()
def execute_tag(table: Table, plan: TagPlan) -> Snapshot | None:
    """Write the tag of a plan; return its snapshot, or None if there was nothing to do.

    Raises:
        AlreadyExistsError: a tag of that name was created since planning.
        NotFoundError: the snapshot has expired since planning; no tag was created.
        EngineError: the success file cannot be written; no tag was created.
    """
    if plan.tag is None:
        return None
    refs = RefStore.of(table)
    if plan.replace:
        refs.replace_tag(plan.name, plan.tag)
    else:
        refs.create_tag(plan.name, plan.tag)
        _check_held(table, plan.name, plan.tag.snapshot.id)
    if plan.success_millis is not None:
        _write_success(table, plan, plan.success_millis)
    if plan.rename_from is not None:
        _rename_success(table, plan.rename_from, plan.name)
        table.file_io.delete(table.paths.tag(plan.rename_from))
    return plan.tag.snapshot


def _rename_success(table: Table, name: str, new_name: str) -> None:
    old = table.paths.tag_success(name)
    data = read_if_there(table.file_io, old) if table.options.creates_tag_success_files else None
    if data is not None:
        table.file_io.write(table.paths.tag_success(new_name), data)
        table.file_io.delete(old)


def _write_success(table: Table, plan: TagPlan, clock_millis: int) -> None:
    """Write the success file of a tag; if it cannot be written, delete the tag unless it existed before."""
    path = table.paths.tag_success(plan.name)
    try:
        if plan.replace:
            table.file_io.delete(path)
        write_success_file(table.file_io, path, clock_millis)
    except (PaimonError, OSError):
        if not plan.replace:
            delete_best_effort(table.file_io, [path, table.paths.tag(plan.name)])
        raise


def _check_held(table: Table, name: str, snapshot_id: int) -> None:
    """Delete a new tag unless the snapshot, or another tag of it, exists after the tag was written.

    An expiry removes a snapshot before it reads the tags that protect its files. It therefore either sees the new tag,
    or is detected here.
    """
    try:
        held = table.snapshots.exists(snapshot_id) or any(
            tag.snapshot.id == snapshot_id for other, tag in RefStore.of(table).tags().items() if other != name
        )
    except (PaimonError, OSError):
        delete_best_effort(table.file_io, [table.paths.tag(name)])
        raise
    if not held:
        delete_best_effort(table.file_io, [table.paths.tag(name)])
        raise NotFoundError(
            f"Snapshot {snapshot_id} of table {table.name} expired while tag '{name}' was written.",
            hint="The tag was not created. Tag a newer snapshot.",
            kind=ErrorKind.SNAPSHOT_NOT_FOUND,
        )


@translate_io_errors()
def plan_delete_tags(
    table: Table, names: str | Iterable[str], *, exact: bool = True, because: Mapping[str, str] | None = None
) -> DeleteTagsPlan:
    """Plan the deletion of tags, given as a list or as comma-separated text; nothing is changed.

    Args:
        table: the table.
        names: the tags.
        exact: read the status of each file, so that sizes are exact and missing files are left out.
        because: why a tag is deleted, by name, for the plan.

    Raises:
        ArgumentError: no name is given.
        CorruptTableError: a protecting reference cannot be read.
    """
    asked = _split(names)
    tags = RefStore.of(table).tags()
    present, missing = [n for n in asked if n in tags], [n for n in asked if n not in tags]
    removed_refs: set[RefKey] = {(str(RefKind.TAG), table.branch, n) for n in present}
    expiry = ExpiryCandidates(table)
    for name, snapshot in _orphaned(table, tags, present):
        reason = f"only tag '{name}' needs it: snapshot {snapshot.id} has expired"
        expiry.add_state(snapshot, reason)
        expiry.add_metadata(snapshot, reason, with_changelog=False)
    why = {n: f": {text}" for n, text in (because or {}).items()}
    going = [(n, path) for n in present for path in tag_files(table, n)]
    references = [Action(DELETE, path, 0, f"tag '{n}' is deleted{why.get(n, '')}") for n, path in going]
    files = SafeDeleter(table).plan(expiry.candidates, removed_refs=removed_refs, references=references, look=exact)
    others = [n for n in tags if n not in present]
    missing_tags = {n: f"there is no tag '{n}'" for n in missing}
    hints = {n: f"{text}. {near}" for n, text in missing_tags.items() if (near := did_you_mean(n, others))}
    warnings = tuple(Action(WARN, _tag_path(table, n), 0, hints.get(n, text)) for n, text in missing_tags.items())
    return DeleteTagsPlan(tuple(present), tuple(missing), warnings, files, tuple(hints.values()))


def _tag_path(table: Table, name: str) -> str:
    """Return the path of a tag; for an invalid tag name, the tag directory."""
    return table.paths.tag(name) if is_one_name(name) else table.paths.tag_dir


@uninterrupted()
@translate_io_errors()
def execute_delete_tags(table: Table, plan: DeleteTagsPlan, trash: TrashRun | None = None) -> DeleteTagsResult:
    """Execute the plan: tag files are deleted first, so that no tag ever references deleted files.

    The trash takes the files, if there is one.
    """
    deleter = SafeDeleter(table, trash)
    deleted: Deleted = deleter.delete_references(plan.files)
    deleted += deleter.delete_files(plan.files)
    return DeleteTagsResult(plan.names, plan.missing, deleted.files, deleted.bytes)


@translate_io_errors()
def expired_tags(table: Table, clock_millis: int, older_than_millis: int | None = None) -> dict[str, str]:
    """Return the tags whose retention has ended, with the reason.

    Args:
        table: the table.
        clock_millis: the current time.
        older_than_millis: tags created before this time are expired too. For a tag without a retention, this is the
            modification time of its file.
    """
    now = wall_clock(clock_millis)
    bound = None if older_than_millis is None else wall_clock(older_than_millis)
    found: dict[str, str] = {}
    for name, tag in RefStore.of(table).tags().items():
        created, kept = tag.create_time, tag.time_retained
        if created is not None and kept is not None and now - created > kept:
            found[name] = f"its retention of {tag.time_retained_text} has ended"
        elif bound is not None:
            created = created if kept is not None else None
            created = created or _modified(table, name)
            if created is not None and created < bound:
                found[name] = f"it was created at {clock_text(created)}"
    return found


def _modified(table: Table, name: str) -> datetime | None:
    """Return the modification time of a tag's file; None if the tag has been deleted."""
    try:
        return wall_clock(table.file_io.status(table.paths.tag(name)).mtime_ms)
    except FileNotFoundError:
        return None


@translate_io_errors()
def list_tags(table: Table) -> dict[str, Tag]:
    """Return all tags, sorted by name."""
    return RefStore.of(table).tags()


def _snapshot(table: Table, refs: RefStore, snapshot_id: int | None) -> Snapshot:
    if snapshot_id is None:
        latest = table.snapshots.latest()
        if latest is None:
            raise NotFoundError(
                f"Table {table.name} has no snapshot to tag.",
                hint="Write to it first.",
                kind=ErrorKind.SNAPSHOT_NOT_FOUND,
            )
        return latest
    found = table.snapshots.find(snapshot_id)
    if found is not None:
        return found
    tagged = refs.tag_of(snapshot_id)
    return tagged[1] if tagged is not None else table.snapshots.get(snapshot_id)


def _check_period(table: Table, name: str, snapshot: Snapshot) -> None:
    """Reject a second tag of a snapshot that is named like a tag of a period: Paimon's automatic tags stop at it."""
    options = table.options
    if options.word("tag.automatic-creation") not in _PERIODIC or tag_time(name, options) is None:
        return
    for other, tag in RefStore.of(table).tags().items():
        if tag.snapshot.id == snapshot.id and other != name and tag_time(other, options) is not None:
            raise AlreadyExistsError(
                f"Snapshot {snapshot.id} of table {table.name} has the automatic tag '{other}' already, and "
                f"'{name}' is named like one, too.",
                hint="Choose a name that is no time.",
                kind=ErrorKind.TAG_EXISTS,
            )


def _free_name(table: Table, name: str) -> str:
    """Return the checked name of a new tag; that of the directory of success files is taken, if there is one."""
    name = check_tag_name(name)
    if table.options.creates_tag_success_files and table.paths.tag(name) == table.paths.tag_success_dir:
        raise ArgumentError(
            f"'{name}' cannot be the name of a tag of table {table.name}: its directory of success files has it.",
            hint="Pick another name, or unset the option 'tag.create-success-file'.",
        )
    return name


def _new_tag(table: Table, snapshot: Snapshot, retained_ms: int | None, clock_millis: int) -> Tag:
    if retained_ms is None:
        retained_ms = table.options.tag_default_time_retained_ms
    if retained_ms is None:
        return Tag(snapshot)
    if retained_ms <= 0:
        raise ArgumentError(f"A tag cannot be kept for {retained_ms} ms.", hint="Give a duration such as '1 d'.")
    if retained_ms > _LONGEST / timedelta(milliseconds=1):
        raise ArgumentError(
            f"A tag cannot be kept for {retained_ms} ms: that is more than {_LONGEST.days} days.",
            hint="Give a shorter duration, or none to keep the tag until it is deleted.",
        )
    return Tag(snapshot, wall_clock(clock_millis), timedelta(milliseconds=retained_ms))


def _split(names: str | Iterable[str]) -> list[str]:
    parts = names.split(",") if isinstance(names, str) else list(names)
    found = list(dict.fromkeys(p.strip() for p in parts if p.strip()))
    if not found:
        raise ArgumentError("No tag name is given.", hint="Give one name, or several separated by commas.")
    return found


def _orphaned(table: Table, tags: dict[str, Tag], going: Collection[str]) -> Sequence[tuple[str, Snapshot]]:
    """Return the tagged snapshots that are unreferenced once the tags in `going` are deleted."""
    staying = {t.snapshot.id for n, t in tags.items() if n not in going}
    found: dict[int, tuple[str, Snapshot]] = {}
    for name in going:
        snapshot = tags[name].snapshot
        if snapshot.id not in staying and not table.snapshots.exists(snapshot.id):
            found.setdefault(snapshot.id, (name, snapshot))
    return list(found.values())


def wall_clock(millis: int) -> datetime:
    """Return a local time; one beyond the years 1 to 9999 is the first or last that a tag can have."""
    return datetime.fromtimestamp(min(max(millis, LEAST_MILLIS), MOST_MILLIS) / 1000)
