"""What every world stands on: addresses, specs, the registry and its contract, files and compiled helpers."""
