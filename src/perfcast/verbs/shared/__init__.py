"""What several questions have in common: fields, and how their texts are read."""
