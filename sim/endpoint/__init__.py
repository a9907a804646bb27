"""Endpoints: what a message occupies between memory and link, and what computation loses."""
