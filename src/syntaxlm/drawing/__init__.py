"""Pictures of trees, distances, gates, attention and charts: SVG, HTML, PNG, LaTeX and text. Imports no model."""
