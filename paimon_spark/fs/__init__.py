"""File access: the FileIO protocol and one implementation per store."""
