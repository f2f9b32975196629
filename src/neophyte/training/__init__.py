"""Training: a short loop, batches, schedules, checkpoints, metrics."""
