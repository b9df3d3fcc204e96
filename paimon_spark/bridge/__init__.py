"""The interface between the JVM and the Python engine process."""
