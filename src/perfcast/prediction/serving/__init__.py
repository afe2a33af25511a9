"""From a question about serving to its forecast: requests, engines, times, figures."""
