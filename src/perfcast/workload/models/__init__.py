"""Programs and sizes of models: from Hugging Face configs, or a user's file."""
