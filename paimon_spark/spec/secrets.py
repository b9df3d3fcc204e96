"""Options with secret values, which are always redacted."""

HIDDEN_KEYS = (
    r"(?i)secret|password|token|credential|authorization|\.sas\.|(access|private|encryption|account|shared|api).?key"
)
"""Pattern of such keys, in the syntax that Python and Java share: Spark's redaction and this package use it."""
