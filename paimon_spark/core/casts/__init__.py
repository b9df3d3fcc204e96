"""Casts of columns between atomic types, equal to those of Paimon's readers for files of an older schema.

Many rules are Java's: narrowing of numbers, formatting of floats, parsing of text.
"""
