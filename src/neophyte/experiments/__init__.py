"""Every figure and table of the papers: a list of trials, a table, a drawing, and the claims that it tests."""
