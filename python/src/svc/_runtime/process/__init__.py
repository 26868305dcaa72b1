"""The processes: what the launcher starts, forks, watches and clears away."""
