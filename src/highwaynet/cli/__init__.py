"""The command `highway`."""
