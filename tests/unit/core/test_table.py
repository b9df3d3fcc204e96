from __future__ import annotations

import pickle

import pytest

from paimon_spark.core.table import Table
from paimon_spark.errors import OptionError
from paimon_spark.spec.kinds import BucketMode
from tests.unit.core import samples


def test_survives_pickle_and_config() -> None:
    table = samples.table({"bucket": "3"}, keys=["k", "p"], partitions=["p"], file_io=None)
    for again in (pickle.loads(pickle.dumps(table)), Table.from_config(table.to_config())):
        assert again.to_config() == table.to_config()
        assert again.schema == table.schema
        assert again.file_io.exists(table.paths.schema(0))


@pytest.mark.parametrize(
    ("options", "keys", "partitions", "mode"),
    [
        ({}, [], [], BucketMode.BUCKET_UNAWARE),
        ({"bucket": "2", "bucket-key": "v"}, [], [], BucketMode.HASH_FIXED),
        ({"bucket": "2"}, ["k"], [], BucketMode.HASH_FIXED),
        ({}, ["k"], [], BucketMode.HASH_DYNAMIC),
        ({}, ["k", "p"], ["p"], BucketMode.HASH_DYNAMIC),
        ({}, ["k"], ["p"], BucketMode.KEY_DYNAMIC),
        ({"bucket": "-2"}, ["k"], [], BucketMode.POSTPONE),
    ],
)
def test_bucket_mode(options: dict[str, str], keys: list[str], partitions: list[str], mode: BucketMode) -> None:
    assert samples.table(options, keys=keys, partitions=partitions).bucket_mode is mode


def test_bucket_key_defaults_to_the_trimmed_primary_key() -> None:
    assert [f.name for f in samples.table(keys=["k", "p"], partitions=["p"]).bucket_key_fields] == ["k"]
    given = samples.table({"bucket": "2", "bucket-key": "p,k"}, keys=["k", "p"])
    assert [f.name for f in given.bucket_key_fields] == ["p", "k"]


def test_a_travel_option_replaces_the_stored_ones() -> None:
    table = samples.table({"scan.snapshot-id": "3", "scan.mode": "from-snapshot"})
    values = table.with_options({"scan.tag-name": "t"}).options.values
    assert dict(values) == {"scan.tag-name": "t"}


def test_options_of_the_stored_table_stay() -> None:
    table = samples.table({"bucket": "2"}, keys=["k"])
    assert table.with_options({"bucket": "2"}).options.bucket == 2
    with pytest.raises(OptionError, match="'bucket'"):
        table.with_options({"bucket": "4"})


def test_partition_text() -> None:
    assert samples.table().partition_text(samples.partition()) == ""
    assert samples.table(partitions=["p"]).partition_text(samples.partition("a/b")) == "p=a%2Fb"


def test_options_that_define_the_files_cannot_be_dynamic() -> None:
    table = samples.table({"bucket": "2", "rowkind.field": "p"}, keys=["k"])
    for key, value in (
        ("merge-engine", "first-row"),
        ("deletion-vectors.enabled", "true"),
        ("bucket-function.type", "mod"),
        ("rowkind.field", "v"),
        ("index-file-in-data-file-dir", "true"),
    ):
        with pytest.raises(OptionError, match=f"'{key}'"):
            table.with_options({key: value})
    same = {"merge-engine": "Deduplicate", "deletion-vectors.enabled": "false", "rowkind.field": "p"}
    assert table.with_options(same).options.get("rowkind.field") == "p"
