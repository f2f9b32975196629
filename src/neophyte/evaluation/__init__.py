"""Evaluation: loss by position, regret over the oracle, generation."""
