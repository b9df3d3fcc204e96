"""Table metadata: manifests, references, time travel, deletion vectors, row ids."""
