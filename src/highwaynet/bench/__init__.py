"""Speed of a training step on this machine, compared with named peers in the same run."""
