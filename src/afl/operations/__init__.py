"""Use cases, one module for each subject. Every face calls these and adds only its clothes."""
