"""Where the tables of a recommendation model lie: published rules, and a search by predicted time."""
