"""What the services do in a second, and what the machine would let them do: measured in one run, in turns."""
