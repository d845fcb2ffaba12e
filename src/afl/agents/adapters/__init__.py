"""Who answers: a model service, or a script."""
