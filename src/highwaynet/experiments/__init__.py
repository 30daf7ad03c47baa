"""The claims of the paper: their runs, rules, numbers and figures."""
