"""The Open Inference Protocol behind its routes: models, plans, work, statistics."""
