"""The documentation: pages, and in `generation` the programs that make some of them of the code."""
