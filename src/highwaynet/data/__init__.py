"""Data sets: reads what a DataSpec names, divides it, and prepares tensors."""
