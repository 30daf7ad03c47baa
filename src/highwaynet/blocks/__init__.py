"""Ready-made blocks of published systems that use highway layers, one in each file."""
