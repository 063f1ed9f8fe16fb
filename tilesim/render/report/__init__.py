"""Report of a call: one page from one set of facts, also as Markdown, JSON and the HTML of notebooks."""
