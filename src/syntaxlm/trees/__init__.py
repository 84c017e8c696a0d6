"""Constituency and dependency trees: files, preprocessing, decoding, baselines, scoring. NumPy, no torch."""
