"""The command ``tensor-round``, which needs the extra ``cli``."""
