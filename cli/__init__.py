"""The `superbizagent` command: services on one machine, and views of them in a terminal."""
