"""Shrinking: which layers a trained network does not need, and the smaller network that is left."""
