"""One CALL of each procedure, on the tables of test_procedure_kills."""

from __future__ import annotations

from tests.property.procedure_histories import ELSEWHERE

CALLS = {
    "alter_column_default_value": "alter_column_default_value('t', 'v', '7')",
    "clear_consumers": "clear_consumers('t')",
    "clone": "clone(table => 't', database => 'default', target_database => 'default', target_table => 'c', "
    "clone_from => 'paimon')",
    "compact": "compact('t')",
    "compact_database": "compact_database('default')",
    "compact_manifest": "compact_manifest('t')",
    "copy": "copy('t', 'c')",
    "copy_files": "copy_files(database => 'default', table => 't', target_warehouse => '{warehouse}', "
    "target_database => 'default', target_table => 'c')",
    "create_branch": "create_branch(table => 't', branch => 'new', snapshot_id => 3)",
    "create_tag": "create_tag('t', 'new')",
    "create_tag_from_timestamp": "create_tag_from_timestamp('t', 'new', 0)",
    "create_tag_from_watermark": "create_tag_from_watermark('t', 'new', 2)",
    "delete_branch": "delete_branch('t', 'dev')",
    "delete_tag": "delete_tag('t', 'first,last')",
    "drop_partition": "drop_partition('t', 'p=20200101')",
    "empty_trash": "empty_trash(table => 't', older_than => '2100-01-01')",
    "expire_changelogs": "expire_changelogs(table => 't', delete_all => true)",
    "expire_partitions": "expire_partitions('t', '1 d', 'yyyyMMdd')",
    "expire_snapshots": "expire_snapshots('t', 1)",
    "expire_tags": "expire_tags('t', '2100-01-01')",
    "fast_forward": "fast_forward('t', 'dev')",
    "mark_partition_done": "mark_partition_done('t', 'p=20200101')",
    "merge_branch": "merge_branch('a', 'dev')",
    "purge_files": "purge_files('t')",
    "remove_orphan_files": "remove_orphan_files(table => 't', mode => 'LOCAL')",
    "remove_unexisting_files": "remove_unexisting_files('t')",
    "remove_unexisting_manifests": "remove_unexisting_manifests('t')",
    "rename_branch": "rename_branch('t', 'dev', 'new')",
    "rename_tag": "rename_tag('t', 'last', 'new')",
    "repair_earliest_snapshot": "repair_earliest_snapshot('t', 4)",
    "repair_snapshots": "repair_snapshots('t')",
    "replace_tag": "replace_tag('t', 'last', 3)",
    "rescale": "rescale('t', 2)",
    "reset_consumer": "reset_consumer('t', 'reader', 3)",
    "rewrite_file_index": "rewrite_file_index('t')",
    "rollback": "rollback(table => 't', snapshot => 3)",
    "rollback_to": "rollback_to('t', 'first')",
    "rollback_to_as_latest": "rollback_to_as_latest('t', 3)",
    "rollback_to_timestamp": "rollback_to_timestamp('t', {fourth})",
    "rollback_to_watermark": "rollback_to_watermark('t', 2)",
    "trigger_tag_automatic_creation": "trigger_tag_automatic_creation('t')",
    "undo": "undo('t', 'last')",
}
UNKILLED = {k: v for k, v in ELSEWHERE.items() if k not in CALLS}
"""Procedures that take no part, and why."""
