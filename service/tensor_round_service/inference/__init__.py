"""The Open Inference Protocol, without HTTP: models, plans, execution, statistics."""
