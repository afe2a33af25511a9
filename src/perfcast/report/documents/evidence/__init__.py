"""What is said of evidence: errors of suites, scores, measured tables."""
