"""The performance tables that NVIDIA prints in the READMEs of DeepLearningExamples, read and forecast."""
