"""One suite for each port. Subclass it, give it your implementation, and pytest does the rest."""
