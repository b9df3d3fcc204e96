"""Whether Spark's own scans can read the files of a table, and the Hadoop configuration for it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from paimon_spark.core.table import Table
from paimon_spark.fs.guarded import unguarded
from paimon_spark.fs.s3 import S3FileIO, split
from paimon_spark.spark.jvm_frames import jvm_frames

_REASONS = {
    "jars": "in Python: Hadoop's S3 client is missing, run `paimon-spark env --s3`",
    "settings": "in Python: Hadoop's S3 client has other settings for the bucket already",
}


@dataclass(frozen=True, slots=True)
class NativeAccess:
    """The access of native scans to the files of a table; `refusal` is the reason if there is none, else empty."""

    conf: Mapping[str, str] = field(default_factory=dict, repr=False)
    refusal: str = ""


def native_access(table: Table) -> NativeAccess:
    """Return the access of Spark's own scans to the files of a table, or the reason why workers read all of them."""
    store = unguarded(table.file_io)
    if not isinstance(store, S3FileIO):
        return NativeAccess()
    bucket = split(table.path)[0]
    conf = store.settings.hadoop(bucket)
    digest = hashlib.sha256(json.dumps(conf, sort_keys=True).encode()).hexdigest()
    why = jvm_frames().nativeRefusal(table.path.partition("://")[0] + "://" + bucket, digest)
    return NativeAccess(refusal=_REASONS[why]) if why else NativeAccess(conf)
