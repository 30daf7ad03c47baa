"""Ink: records become pictures, tables and the HTML report."""
