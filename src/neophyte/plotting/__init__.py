"""Drawing helpers shared by the figures of all experiments."""
