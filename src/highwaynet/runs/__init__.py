"""A run: its spec and its directory. No other room knows the names of its files."""
