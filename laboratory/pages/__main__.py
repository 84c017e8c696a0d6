"""Write all generated parts and pictures of README and the pages: `python -m laboratory.pages`."""

from laboratory.pages import induction, language, parts, pictures, results

results.main()
parts.main()
pictures.main()
induction.main()
language.write_glossary()
