"""The report of a call: one page, one set of facts, also as Markdown, JSON and a notebook's output."""
