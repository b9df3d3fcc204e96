"""Files to Arrow and back: Parquet, ORC, Avro and the metadata codecs."""
