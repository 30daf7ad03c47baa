"""A run: its spec and its directory. The only code that knows file names."""
