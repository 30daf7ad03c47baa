"""How layers stack: a NetworkSpec becomes a module."""
