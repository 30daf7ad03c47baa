"""How fast it is here, beside named peers in the same run."""
