"""The recorded casts and texts of floats, compared with a new recording."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

from paimon_spark.core.casts.to_text import float_text
from tests.tables import record_casts
from tests.tables.casting import recorded

SHORTEST_SINCE = 19
"""The first release of Java that writes no digit more of a float than it takes."""
PROGRAM = """
import java.util.Random;
public class Texts {
    public static void main(String[] args) {
        Random random = new Random(11);
        StringBuilder out = new StringBuilder(Runtime.version().feature() + "\\n");
        for (int i = 0; i < 40000; i++) {
            long bits = i % 2 == 0 ? random.nextLong() : Double.doubleToLongBits(random.nextGaussian() * Math.pow(10, i % 20 - 8));
            float small = i % 2 == 0 ? Float.intBitsToFloat((int) bits) : (float) Double.longBitsToDouble(bits);
            out.append(bits).append(' ').append(Double.longBitsToDouble(bits)).append(' ')
                    .append(Float.floatToRawIntBits(small)).append(' ').append(small).append('\\n');
        }
        System.out.print(out);
    }
}
"""


def test_floats_have_the_texts_that_java_gives_them(tmp_path: Path) -> None:
    source = tmp_path / "Texts.java"
    source.write_text(PROGRAM)
    answer = subprocess.run(["java", str(source)], capture_output=True, text=True, check=True).stdout.splitlines()
    table = np.array([line.split() for line in answer[1:]])
    release = int(answer[0])
    for bits, texts, dtype in (
        (table[:, 0].astype("i8"), table[:, 1], "f8"),
        (table[:, 2].astype("i4"), table[:, 3], "f4"),
    ):
        numbers: npt.NDArray[Any] = bits.view(dtype)
        ours = np.array(float_text(pa.array(numbers)).to_pylist())
        other = ours != texts
        assert not other.any() if release >= SHORTEST_SINCE else other.mean() < 0.2
        assert np.array_equal(texts[other].astype(dtype), ours[other].astype(dtype))
        assert all(len(a) <= len(b) for a, b in zip(ours[other], texts[other], strict=True))


@pytest.mark.slow
def test_the_release_answers_as_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_casts, "FILE", tmp_path / "casts.json")
    record_casts.record()
    again = (tmp_path / "casts.json").read_text(encoding="utf-8")
    monkeypatch.undo()
    assert again == record_casts.FILE.read_text(encoding="utf-8")
    assert recorded()["written_by"]
