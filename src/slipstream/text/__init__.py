"""Text analysis that both paths share: language, sentences, search terms. Pure functions."""
