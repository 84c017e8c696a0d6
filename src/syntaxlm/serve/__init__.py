"""The page and the JSON interface of `syntaxlm serve`: models in a browser. Requires the extra `serve`."""
