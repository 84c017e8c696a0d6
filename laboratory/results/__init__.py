"""The stored results: a JSON Lines file for each experiment, with a line for each run of a command."""
