"""The path of a question, one file a stage; read pipeline.py first."""
