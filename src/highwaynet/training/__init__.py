"""Training: the loop, optimisers, schedules, evaluation, checkpoints."""
