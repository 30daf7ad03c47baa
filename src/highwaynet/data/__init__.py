"""What a sample is: a DataSpec becomes tensors, splits and names."""
