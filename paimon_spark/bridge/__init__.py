"""The seam between the JVM and the Python engine process."""
