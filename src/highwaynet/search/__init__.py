"""Studies: spaces of settings, the workers that run trials, and the results."""
