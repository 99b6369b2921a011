"""Explanations of one sample: numbers (`tapwise`), text (`table`) and pictures (`plot`)."""
