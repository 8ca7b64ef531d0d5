"""The routes: one module for the paths of one subject."""
