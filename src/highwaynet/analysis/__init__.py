"""Analyses of a trained network, each of which returns a plain record."""
