"""The parts of the documentation that are generated from the code and the results, so that they cannot go stale."""
