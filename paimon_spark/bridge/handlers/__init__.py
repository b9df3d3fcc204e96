"""The methods that the JVM may call, one module per part of the connector."""
