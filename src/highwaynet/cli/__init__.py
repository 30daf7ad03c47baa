"""Something typed: the command `highway`."""
