"""The runtime: records, states and, above them, what moves them."""
