"""Floats as Java writes them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from paimon_spark.core.casts.to_text import float_text
from paimon_spark.spec.literals import java_float

# Java's answers; those of FLOAT are of Java 19 and later, where older releases write digits that are not needed.
DOUBLES = [
    (0.0, "0.0"), (-0.0, "-0.0"), (1.0, "1.0"), (1.5, "1.5"), (0.001, "0.001"), (1 / 3, "0.3333333333333333"),
    (0.0009999999999999998, "9.999999999999998E-4"), (0.00001, "1.0E-5"), (-1.25e-7, "-1.25E-7"), (0.1, "0.1"),
    (9999999.0, "9999999.0"), (9999999.999999998, "9999999.999999998"), (1e7, "1.0E7"), (123456789.0, "1.23456789E8"),
    (12345678901234567890.0, "1.2345678901234567E19"), (1e20, "1.0E20"), (1e21, "1.0E21"), (1e22, "1.0E22"),
    (1e23, "1.0E23"), (2e23, "2.0E23"), (1.7976931348623157e308, "1.7976931348623157E308"),
    (2.2250738585072014e-308, "2.2250738585072014E-308"), (5e-324, "4.9E-324"), (1e-323, "9.9E-324"),
    (1.5e-323, "1.5E-323"), (2e-323, "2.0E-323"), (float("inf"), "Infinity"), (float("-inf"), "-Infinity"),
]  # fmt: skip
FLOATS = [
    (0.1, "0.1"), (1e10, "1.0E10"), (123456789.0, "1.2345679E8"), (16777216.0, "1.6777216E7"), (9999999.0, "9999999.0"),
    (3.4028235e38, "3.4028235E38"), (1e-45, "1.4E-45"), (3e-45, "2.8E-45"), (1.17549435e-38, "1.1754944E-38"),
    (0.001, "0.001"), (0.00099999, "9.9999E-4"), (2.5, "2.5"), (33554432.0, "3.3554432E7"), (-0.0, "-0.0"),
]  # fmt: skip


@pytest.mark.parametrize(("arrow", "pairs"), [(pa.float64(), DOUBLES), (pa.float32(), FLOATS)], ids=["double", "float"])
def test_numbers_have_the_texts_of_java(arrow: pa.DataType, pairs: list[tuple[float, str]]) -> None:
    texts = [text for _, text in pairs]
    column = pa.array([None, *(number for number, _ in pairs), float("nan"), None], arrow)
    assert float_text(column).to_pylist() == [None, *texts, "NaN", None]
    assert float_text(column.slice(3, 4)).to_pylist() == texts[2:6]
    assert float_text(column.slice(0, 1)).to_pylist() == [None]
    assert float_text(column.slice(0, 0)).to_pylist() == []


@pytest.mark.parametrize(("bits", "dtype"), [(np.int64, np.float64), (np.int32, np.float32)])
def test_every_text_is_the_number_again_and_none_is_shorter(bits: type, dtype: type) -> None:
    draw = np.random.default_rng(7)
    limits = np.iinfo(bits)
    numbers = np.concatenate([
        draw.integers(limits.min, limits.max, 20000, dtype=bits), np.arange(300, dtype=bits), -np.arange(1, 9, dtype=bits)
    ]).view(dtype)  # fmt: skip
    numbers = np.concatenate([numbers, (draw.normal(size=5000) * 10.0 ** draw.integers(-8, 12, 5000)).astype(dtype)])
    numbers = numbers[np.isfinite(numbers)]
    texts = float_text(pa.array(numbers)).to_pylist()
    assert np.array_equal(np.array(texts).astype(dtype).view(bits), numbers.view(bits))
    for text, number in zip(texts, numbers, strict=True):
        mantissa, _, power = text.lstrip("-").partition("E")
        whole, _, part = mantissa.partition(".")
        size = abs(float(number))
        assert bool(power) is (size != 0 and not 1e-3 <= size < 1e7)
        assert len(whole) == 1 or not power
        assert part == "0" or not part.endswith("0")
        digits = len((whole + part).strip("0"))
        shortest = np.format_float_scientific(abs(number), unique=True, trim="-").partition("e")[0].replace(".", "")
        assert digits <= max(len(shortest), 2)


@pytest.mark.parametrize(("bits", "dtype"), [(np.int64, np.float64), (np.int32, np.float32)])
def test_a_number_alone_has_the_text_of_a_column(bits: type, dtype: type) -> None:
    draw, limits = np.random.default_rng(11), np.iinfo(bits)
    drawn = draw.integers(limits.min, limits.max, 20000, dtype=bits)
    numbers = np.concatenate([drawn, np.arange(300, dtype=bits), np.arange(limits.min, limits.min + 300, dtype=bits)])
    powers = 10.0 ** np.arange(-40, 38)
    numbers = np.concatenate([numbers.view(dtype), powers.astype(dtype), np.nextafter(powers.astype(dtype), dtype(0))])
    alone = [java_float(number, single=dtype is np.float32) for number in numbers.tolist()]
    together = float_text(pa.array(numbers)).to_pylist()
    assert [(n, a, t) for n, a, t in zip(numbers, alone, together, strict=True) if a != t] == []
