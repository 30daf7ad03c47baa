"""What every room may use: errors meant for people, random seeds, safe writing of files."""
