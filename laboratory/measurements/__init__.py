"""Programs that measure what no command measures, and that write the data of experiments."""
