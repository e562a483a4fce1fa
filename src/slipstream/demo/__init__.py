"""The shipped bilingual corpus, and questions whose answers are known."""
