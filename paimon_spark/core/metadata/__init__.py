"""What metadata files say: manifests, references, versions in time, deletion vectors, row ids."""
