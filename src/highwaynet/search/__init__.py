"""Many runs: spaces of settings, studies, the workers that run them, and what came out."""
