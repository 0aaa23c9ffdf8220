"""One YAML an experiment; its first lines are the paper and the command."""
