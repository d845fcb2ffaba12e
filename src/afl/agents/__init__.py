"""Models, and what agents are made of: messages, tools, budgets, and adapters to services."""
