"""Questions to a trained network, answered with plain records."""
