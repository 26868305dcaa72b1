from .names import NAME
