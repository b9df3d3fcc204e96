"""File formats: Parquet, ORC and Avro data files to and from Arrow, and the codecs of metadata files."""
