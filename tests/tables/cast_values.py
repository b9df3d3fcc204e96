"""The inputs of the table of casts: the types, and the values of each type that are cast to every other type."""

from __future__ import annotations

from typing import Any

_NUMERALS = ["0", "-0", "1", "+7", "-12", "127", "128", "007", "1.9", "-1.9", ".5", "-.5", "5.", ".", "1e3", "1E-3",
             "2147483648", "9223372036854775807", "9223372036854775808", "-9223372036854775808", "0.005", "0.004999",
             "12345678.905", "99999999.994", "99999999.995", "1e400", "-1e-400", "4.9e-324", "123456789012345678901234567890"]  # fmt: skip
_NOT_NUMERALS = ["", " ", "+", "-", "x", " 1", "1 ", "1_000", "1,5", "--1", "1e", "0x10", "0x1p3", "1d", "2F", "NaN",
                 "Infinity", "-Infinity", "inf", "nan", "+Infinity", "\t3.5\n"]  # fmt: skip
_FLAGS = ["t", "TRUE", "Yes", "y", "f", "False", "NO", "n", "on", " true"]
_DAYS = ["2024-02-29", "2023-02-29", "2024-2-9", "2024-1", "2024", "2024 ", " 2024-01-02", "2024-04-31", "2024-13-01",
         "2024-00-10", "0000-01-01", "0001-01-01", "1582-10-10", "1969-12-31", "9999-12-31", "10000-01-01", "-0001-01-01",
         "2024-01-02 10:11:12", "2024-01-02 x", "2024-01-02T10:11:12", "2024/01/02", "20240102", "+10000-01-01"]  # fmt: skip
_MOMENTS = ["2024-01-02 10:11:12.123456789", "2024-01-02 10:11:12.1", "2024-01-02 1:2:3", "2024-1-2 10:11:12.",
            "2024-01-02 10:11", "2024-01-02 24:00:00", "2024-01-02 24:00:01", "2024-01-02 23:59:60", "2024-02-31 00:00:00",
            "1969-12-31 23:59:59.999999999", "1677-01-01 00:00:00", "2024-01-02 10:11:12.1234567891", "2024-01-02  10:11:12",
            "2024-03-31 02:30:00", "2024-10-27 02:30:00", "0001-01-01 00:00:00"]  # fmt: skip
_CLOCKS = ["10:11:12", "10:11:12.3456", "10:11:12.9996", "1:2", "7:", "10:11:12+01", "10:11:12-01:30", "10:11+01:30",
           "25:00:00", "10:61:00", "10:11:x", "10:11:12.5x"]  # fmt: skip
_STAMPS = ["1970-01-01T00:00:00", "2024-02-29T23:59:59.999", "1969-12-31T23:59:59.999", "1969-12-31T00:00:00.5",
           "0001-01-01T00:00:00", "9999-12-31T23:59:59", "1582-10-10T12:00:00", "2024-03-31T02:30:00.12",
           "2024-10-27T00:30:00.1", "2024-10-27T01:30:00.01", "2024-06-15T12:30:45.001"]  # fmt: skip
_FINE = ["2024-01-02T03:04:05.123456", "1969-12-31T23:59:59.999999", "2024-01-02T03:04:05.000001",
         "2024-01-02T03:04:05.001000", "1960-01-02T03:04:05.123456"]  # fmt: skip
_NANOS = ["2024-01-02T03:04:05.123456789", "1969-12-31T23:59:59.999999999", "2024-01-02T03:04:05.000000001",
          "1970-01-01T00:00:00", "1960-01-02T03:04:05.123456789"]  # fmt: skip
# Releases of Java before 19 write more digits of some numbers than later ones. There is none of these numbers here.
_DOUBLES = [0.0, "-0.0", 1.0, -1.5, 0.5, 2.5, 0.1, 0.001, 0.00099999, 1e-5, 1234567.25, 9999999.0, 1e7, 123456789.0,
            1e20, 1e-7, 1e21, 1e100, 127.9, -128.9, 128.0, 32768.0, -2147483649.0, 4294967296.5, 1e19, -1e19, 0.005, 1.005,
            -1.005, 99999999.995, 12345678.125, "NaN", "Infinity", "-Infinity"]  # fmt: skip

VALUES: dict[str, list[Any]] = {
    "BOOLEAN": [True, False],
    "TINYINT": [0, 1, -1, 127, -128],
    "SMALLINT": [0, 1, -129, 128, 255, 256, 32767, -32768],
    "INT": [0, 1, -1, 9, 128, 65536, 99999, 2147483647, -2147483648],
    "BIGINT": [0, 1, -1, 12345, 4294967297, 9007199254740993, 9223372036854775807, -9223372036854775808],
    "FLOAT": [*(v for v in _DOUBLES if v not in (123456789.0, -2147483649.0)), -3e9, 16777217.0, 3.4028235e38, 1.4e-45],
    "DOUBLE": [*_DOUBLES, 4.9e-324, 2.2250738585072014e-308, 1.7976931348623157e308, 9007199254740993.0, 1e39],
    "DECIMAL(5, 1)": ["0.0", "1.5", "-0.5", "9999.9", "-9999.9", "127.9", "255.4"],
    "DECIMAL(10, 2)": ["0.00", "0.05", "-0.05", "1.45", "1.55", "99999999.99", "-99999999.99", "30000000.00", "16777216.99"],
    "DECIMAL(18, 18)": ["0.000000000000000000", "0.000000000000000001", "-0.999999999999999999", "0.123456789012345678"],
    "DECIMAL(38, 10)": ["0.0000000000", "0.0000000001", "-1.5000000000", "9999999999999999999999999999.9999999999",
                        "-18446744073709551617.9000000000", "123456789.0123456789", "1.0050000000", "2.2250000000"],
    "CHAR(4)": ["", "a", "ab  ", "abcd", "12", "true", "2024"],
    "VARCHAR(3)": ["", "a", "abc", "é€𝄞", "12", "yes"],
    "VARCHAR(20)": ["", "abcdefghij", "é€𝄞 xyz", "2024-01-02 10:11:12", "12.5"],
    "STRING": [*_NUMERALS, *_NOT_NUMERALS, *_FLAGS, *_DAYS, *_MOMENTS, *_CLOCKS, "é€𝄞 longer than that"],
    "BINARY(4)": ["61626364", "00616200", "e282ac21"],
    "VARBINARY(3)": ["", "61", "616263"],
    "BYTES": ["", "61", "616263646566", "f09d849e"],
    "DATE": ["1970-01-01", "1969-12-31", "0001-01-01", "1582-10-10", "2024-02-29", "9999-12-31", "+10000-01-01"],
    "TIME(0)": ["00:00:00", "10:11:12", "23:59:59"],
    "TIME(3)": ["00:00:00", "10:11:12.001", "10:11:12.12", "23:59:59.999"],
    "TIMESTAMP(0)": [s.partition(".")[0] for s in _STAMPS[:8]],
    "TIMESTAMP(3)": _STAMPS,
    "TIMESTAMP(6)": [*_STAMPS, *_FINE],
    "TIMESTAMP(9)": _NANOS,
    "TIMESTAMP(3) WITH LOCAL TIME ZONE": _STAMPS,
    "TIMESTAMP(6) WITH LOCAL TIME ZONE": [*_STAMPS, *_FINE],
    "TIMESTAMP(9) WITH LOCAL TIME ZONE": _NANOS,
}  # fmt: skip
"""The values of each source type as JSON carries them: texts for what JSON has no form of."""

TARGETS = (*VALUES, "CHAR(2)", "DECIMAL(3, 3)", "DECIMAL(20, 0)", "TIMESTAMP(1)", "TIMESTAMP(4)", "TIMESTAMP(8)",
           "TIMESTAMP(0) WITH LOCAL TIME ZONE")  # fmt: skip
NESTED: list[tuple[Any, list[Any]]] = [
    ({"type": "ARRAY", "element": "DOUBLE"}, [[], [1.0, None, 1e10, "NaN"], [None]]),
    ({"type": "ARRAY", "element": {"type": "ARRAY", "element": "DECIMAL(20, 8)"}}, [[["0.00000001", "-1.5"], [], None], []]),
    ({"type": "MAP", "key": "STRING", "value": "TIMESTAMP(3)"},
     [[["a, b", "2024-01-02T03:04:05.1"], ["", None]], [["x", "1969-12-31T23:59:59.999"]], []]),
    ({"type": "MAP", "key": "DATE", "value": "BOOLEAN"}, [[["2024-01-02", True]]]),
    ({"type": "ROW", "fields": [{"id": 7, "name": "a", "type": "INT"}, {"id": 8, "name": "b", "type": "BYTES"},
                                {"id": 9, "name": "c", "type": {"type": "ARRAY", "element": "CHAR(3)"}}]},
     [[1, "6162", ["x  ", None]], [None, None, None], [-7, "", []]]),
]  # fmt: skip
"""Constructed types, as JSON spells them, and values: rows and arrays as lists, maps as lists of pairs."""
NESTED_TARGETS = ("STRING", "VARCHAR(4)", "CHAR(40)", "BYTES", "INT")
ZONES = ("UTC", "Europe/Berlin")
"""Time zones that casts are recorded in; all but the first one only for the types that look at it."""


def looks_at_zone(source: str, target: str) -> bool:
    """Return whether the cast depends on the time zone."""
    return "LOCAL" in source or "LOCAL" in target
