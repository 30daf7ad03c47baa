"""The paper's claims: which runs, which records, which figure, what counts as reproduced."""
