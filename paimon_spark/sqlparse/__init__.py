"""The only room that parses SQL text."""
