"""Results as events on a timeline: what ran when, one file a subject."""
