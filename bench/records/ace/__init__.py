"""Parts of benches and reports that belong to ACE."""
