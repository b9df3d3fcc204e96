"""Casts of columns between atomic types, value for value what Paimon's readers make of files of an older schema.

Java decides many of the answers: how numbers narrow, how floats are written, how texts are parsed.
"""
