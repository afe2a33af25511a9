"""What a search is answered with: clusters compared, plans explained, a baseline beside them, sensitivity."""
