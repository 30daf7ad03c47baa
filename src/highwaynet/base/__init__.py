"""Code that every room may use: errors for users, spec models, random seeds, atomic writing of files."""
