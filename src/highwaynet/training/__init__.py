"""When weights change: the one training loop, optimisers, schedules, evaluation."""
