"""The formulas: highway, plain and residual layers, their gates and their initialisation."""
