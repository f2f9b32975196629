"""Networks of the papers, and the one way to build, save and load any network."""
