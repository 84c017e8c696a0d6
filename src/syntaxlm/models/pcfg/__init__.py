"""Neural probabilistic context-free grammars."""
