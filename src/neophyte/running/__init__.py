"""Runs lists of trials: `trials` says what a trial is, `engines` runs them, `worker` is the process that runs one."""
