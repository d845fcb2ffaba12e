"""The face for LLMs: a server of the Model Context Protocol over the operations.

- Tools act and look (`afl.mcp.tools`); each workflow is a tool of its own (`workflows`).
- Resources show what the store keeps (`resources`).
- Whoever has the operator's token, or started the server on its own stdin, may act; others look.

What it starts are real runs: durable from the first moment, and done by workers, so nothing is
lost when this process ends. Only `server`, `stdio` and `http` know the SDK, which takes a second to
import.
"""
