"""Figures, findings and the HTML report, all made from records."""
