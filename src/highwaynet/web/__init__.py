"""Pages in which a trained network can be tried in the browser."""
